/* SPDX-License-Identifier: Apache-2.0 */
/* parlin-info: the devices of this machine as parlin sees them, and which one each rank would take.

       parlin-info                      this process alone
       mpiexec -n 4 parlin-info         four ranks
       parlin-info --json               for programs

   Ends with 0, with 1 where some rank has no device, with 2 where the command line is wrong. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include <parlin/mpi.h>
#include <parlin/parlin.h>

enum { OK = 0, NO_DEVICE = 1, USAGE = 2 };

/* What a rank tells rank 0. */
typedef struct rank_report {
    char node[MPI_MAX_PROCESSOR_NAME];
    int has_device;
    parlin_device_info device;
    char reason[4096]; /* where there is none */
} rank_report;

static const char usage[] = "usage: [mpiexec -n P] parlin-info [--json] [--help] [--version]\n";
static const char help[] =
    "\n"
    "Lists the OpenCL devices of this machine as parlin sees them and the device that each rank\n"
    "would take.\n"
    "\n"
    "  --json     one JSON object with \"devices\" and \"ranks\"\n"
    "  --help     this text\n"
    "  --version  the version of parlin\n"
    "\n"
    "PARLIN_DEVICE names a device: an index (3), a place (1:0, rusticl:0), a class (gpu,\n"
    "accelerator, cpu, emulation) or part of a name (radeon). Without it the ranks of a node "
    "share\n"
    "the devices of the best class present.\n";

static const char *class_name(parlin_device_class device_class)
{
    static const char *const names[] = {"gpu", "accelerator", "cpu", "emulation"};
    return (unsigned)device_class < 4 ? names[device_class] : "unknown";
}

/* --- which device each rank takes --- */

static void refuse(rank_report *report)
{
    report->has_device = 0;
    snprintf(report->reason, sizeof report->reason, "%s", parlin_last_error());
}

/* Ranks that can open some device form a group, which deals them out; the others say why not. */
static void choose_device(int rank, rank_report *report)
{
    int length;
    MPI_Comm able;
    parlin_device *first = NULL;
    parlin_group *group = NULL;
    memset(report, 0, sizeof *report);
    MPI_Get_processor_name(report->node, &length);
    report->has_device = parlin_device_open(NULL, &first) == PARLIN_SUCCESS;
    if (!report->has_device)
        refuse(report);
    MPI_Comm_split(MPI_COMM_WORLD, report->has_device, rank, &able);
    if (report->has_device &&
        (parlin_group_open(able, NULL, &group) != PARLIN_SUCCESS ||
         parlin_device_get_info(parlin_group_device(group), &report->device) != PARLIN_SUCCESS))
        refuse(report);
    parlin_group_close(group);
    parlin_device_close(first);
    MPI_Comm_free(&able);
}

/* --- text --- */

static void print_bytes(const char *what, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    printf("       %-16s %.*f %s\n", what, value == (double)(uint64_t)value ? 0 : 1, value,
           units[unit]);
}

static void print_device(const parlin_device_info *info)
{
    printf("\n%3zu  %s\n", info->index, info->name);
    printf("       %-16s %s (%zu:%zu)\n", "platform", info->platform, info->platform_index,
           info->platform_device);
    printf("       %-16s %s%s\n", "class", class_name(info->device_class),
           info->same_hardware ? ", same hardware as an earlier one: taken only by name" : "");
    printf("       %-16s %s\n", "vendor", info->vendor);
    printf("       %-16s %s, driver %s\n", "version", info->version, info->driver);
    printf("       %-16s %llu\n", "compute units", (unsigned long long)info->compute_units);
    printf("       %-16s %llu work-items\n", "work-group",
           (unsigned long long)info->max_work_group);
    print_bytes("memory", info->global_memory);
    print_bytes("largest tensor", info->max_allocation);
    print_bytes("local memory", info->local_memory);
    printf("       %-16s %s\n", "host memory", info->host_unified_memory ? "shared" : "separate");
    printf("       %-16s %s, %s\n", "arithmetic", info->fp16 ? "f32, f16" : "f32",
           info->fp64 ? "f64" : "no f64");
    printf("       %-16s %s\n", "sub-groups", info->sub_groups ? "yes" : "no");
    printf("       %-16s %s\n", "queues", info->out_of_order ? "in and out of order" : "in order");
}

static void print_ranks(const rank_report *reports, int ranks)
{
    int width = 4;
    for (int i = 0; i < ranks; i++)
        if ((int)strlen(reports[i].node) > width)
            width = (int)strlen(reports[i].node);
    printf("\nrank  %-*s  device\n", width, "node");
    for (int i = 0; i < ranks; i++) {
        const parlin_device_info *info = &reports[i].device;
        if (reports[i].has_device)
            printf("%4d  %-*s  %zu (%zu:%zu) %s [%s]\n", i, width, reports[i].node, info->index,
                   info->platform_index, info->platform_device, info->name, info->platform);
        else
            printf("%4d  %-*s  none: %s\n", i, width, reports[i].node, reports[i].reason);
    }
}

static parlin_status print_text(const rank_report *reports, int ranks)
{
    size_t count = 0;
    parlin_status status = parlin_device_count(&count);
    if (status != PARLIN_SUCCESS)
        return status;
    printf("parlin %s sees %zu device%s on %s\n", PARLIN_VERSION, count, count == 1 ? "" : "s",
           reports[0].node);
    for (size_t i = 0; i < count; i++) {
        parlin_device_info info;
        status = parlin_device_describe(i, &info);
        if (status != PARLIN_SUCCESS)
            return status;
        print_device(&info);
    }
    print_ranks(reports, ranks);
    return PARLIN_SUCCESS;
}

/* --- JSON --- */

static cJSON *place_json(const parlin_device_info *info)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "index", (double)info->index);
    cJSON_AddNumberToObject(json, "platform_index", (double)info->platform_index);
    cJSON_AddNumberToObject(json, "platform_device", (double)info->platform_device);
    cJSON_AddStringToObject(json, "platform", info->platform);
    cJSON_AddStringToObject(json, "name", info->name);
    cJSON_AddStringToObject(json, "class", class_name(info->device_class));
    return json;
}

static cJSON *device_json(const parlin_device_info *info)
{
    cJSON *json = place_json(info);
    cJSON_AddStringToObject(json, "vendor", info->vendor);
    cJSON_AddStringToObject(json, "version", info->version);
    cJSON_AddStringToObject(json, "driver", info->driver);
    cJSON_AddNumberToObject(json, "compute_units", (double)info->compute_units);
    cJSON_AddNumberToObject(json, "max_work_group", (double)info->max_work_group);
    cJSON_AddNumberToObject(json, "global_memory", (double)info->global_memory);
    cJSON_AddNumberToObject(json, "local_memory", (double)info->local_memory);
    cJSON_AddNumberToObject(json, "max_allocation", (double)info->max_allocation);
    cJSON_AddNumberToObject(json, "memory_alignment", (double)info->memory_alignment);
    cJSON_AddBoolToObject(json, "host_unified_memory", info->host_unified_memory);
    cJSON_AddBoolToObject(json, "out_of_order", info->out_of_order);
    cJSON_AddBoolToObject(json, "fp16", info->fp16);
    cJSON_AddBoolToObject(json, "fp64", info->fp64);
    cJSON_AddBoolToObject(json, "sub_groups", info->sub_groups);
    cJSON_AddBoolToObject(json, "same_hardware", info->same_hardware);
    return json;
}

static parlin_status print_json(const rank_report *reports, int ranks)
{
    size_t count = 0;
    parlin_status status = parlin_device_count(&count);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "version", PARLIN_VERSION);
    cJSON_AddStringToObject(json, "node", reports[0].node);
    cJSON *devices = cJSON_AddArrayToObject(json, "devices");
    for (size_t i = 0; i < count && status == PARLIN_SUCCESS; i++) {
        parlin_device_info info;
        status = parlin_device_describe(i, &info);
        if (status == PARLIN_SUCCESS)
            cJSON_AddItemToArray(devices, device_json(&info));
    }
    cJSON *list = cJSON_AddArrayToObject(json, "ranks");
    for (int i = 0; i < ranks; i++) {
        cJSON *rank = cJSON_CreateObject();
        cJSON_AddNumberToObject(rank, "rank", i);
        cJSON_AddStringToObject(rank, "node", reports[i].node);
        cJSON_AddItemToObject(rank, "device",
                              reports[i].has_device ? place_json(&reports[i].device)
                                                    : cJSON_CreateNull());
        if (!reports[i].has_device)
            cJSON_AddStringToObject(rank, "error", reports[i].reason);
        cJSON_AddItemToArray(list, rank);
    }
    char *text = status == PARLIN_SUCCESS ? cJSON_Print(json) : NULL;
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(json);
    return status;
}

/* --- the command --- */

typedef struct command {
    int json, help, version;
} command;

/* OK, or USAGE with the reason on stderr. */
static int read_arguments(int argc, char **argv, int speak, command *out)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    opterr = 0;
    for (int next = 1, option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;
         next = optind) {
        if (option == 'j')
            out->json = 1;
        else if (option == 'h')
            out->help = 1;
        else if (option == 'v')
            out->version = 1;
        else {
            if (speak)
                fprintf(stderr, "parlin-info: option %s is not known\n%s", argv[next], usage);
            return USAGE;
        }
    }
    if (optind < argc) {
        if (speak)
            fprintf(stderr, "parlin-info: argument %s is not known\n%s", argv[optind], usage);
        return USAGE;
    }
    return OK;
}

static int report_all(const command *wish, int rank, int ranks)
{
    rank_report mine, *all = NULL;
    int code = OK;
    choose_device(rank, &mine);
    if (rank == 0 && !(all = malloc((size_t)ranks * sizeof *all))) {
        fprintf(stderr, "parlin-info: host memory ran out\n");
        MPI_Abort(MPI_COMM_WORLD, NO_DEVICE);
    }
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        parlin_status status = wish->json ? print_json(all, ranks) : print_text(all, ranks);
        if (status != PARLIN_SUCCESS) {
            fprintf(stderr, "parlin-info: %s\n", parlin_last_error());
            code = NO_DEVICE;
        }
        for (int i = 0; i < ranks; i++)
            if (!all[i].has_device)
                code = NO_DEVICE;
    }
    free(all);
    MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return code;
}

int main(int argc, char **argv)
{
    int rank, ranks, code;
    command wish = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    code = read_arguments(argc, argv, rank == 0, &wish);
    if (code == OK && wish.help) {
        if (rank == 0)
            printf("%s%s", usage, help);
    } else if (code == OK && wish.version) {
        if (rank == 0)
            printf("parlin-info %s\n", PARLIN_VERSION);
    } else if (code == OK) {
        code = report_all(&wish, rank, ranks);
    }
    MPI_Finalize();
    return code;
}
