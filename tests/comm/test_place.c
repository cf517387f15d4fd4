/* SPDX-License-Identifier: Apache-2.0 */
/* C31, the part of this room: ranks dealt over nodes A {0, 2, ..}, B {1, 3, ..} by MPICH's
   MPIR_CVAR_ODD_EVEN_CLIQUES. Which device a place gets is tested in device/. */
#include "comm/group.h"
#include "support.h"

static void case_C31_place_on_the_node(void **state)
{
    (void)state;
    MPI_Comm node;
    int on_node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &on_node);
    MPI_Comm_free(&node);
    const int p = support_size(), r = support_rank();
    if (on_node == p)
        SUPPORT_SKIP("this MPI does not deal ranks over nodes");
    const pl_transport *transport = support_group()->transport;
    assert_int_equal(transport->local_rank, r / 2);
    assert_int_equal(transport->local_size, (p + 1 - r % 2) / 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(case_C31_place_on_the_node)};
    return SUPPORT_RUN_MPI("comm_place", tests);
}
