/* hwloc maps of boards with four GPUs in pairs below PCIe switches (0 1, 2 3), with NVLinks given
 * by the test. Include once per program, which creates a scratch folder. */
#pragma once

#include "recorded.h"
#include "unit/scratch.h"

enum { BOARD_GPUS = 4, BOARD_SWITCHES = 2, BOARD_OBJECTS = BOARD_GPUS + BOARD_SWITCHES };

/* Bandwidth in MB/s from one object to another; objects from BOARD_GPUS on are NVSwitches. */
struct board_link {
    int a, b, mb_per_s;
};

static void board_pci(FILE *f)
{
    for (int g = 0; g < BOARD_GPUS; g++) {
        int bus = 2 + g / 2 * 4;
        if (g % 2 == 0)
            fprintf(f,
                    "<object type='Bridge' gp_index='%d' bridge_type='1-1' depth='1' "
                    "bridge_pci='0000:[%02x-%02x]' pci_busid='0000:01:%02x.0' "
                    "pci_type='0604 [10b5:9781] [0000:0000] b0' pci_link_speed='16'>\n",
                    20 + g, bus, bus + 1, g);
        fprintf(f,
                "<object type='PCIDev' gp_index='%d' pci_busid='0000:%02x:%02x.0' "
                "pci_type='0302 [10de:20b0] [0000:0000] a1' pci_link_speed='16'>\n"
                "<object type='OSDev' gp_index='%d' name='nvml%d' osdev_type='5'/></object>\n%s",
                30 + g, bus, g, 40 + g, g, g % 2 ? "</object>\n" : "");
    }
    for (int i = 0; i < BOARD_SWITCHES; i++)
        fprintf(f,
                "<object type='PCIDev' gp_index='%d' subtype='NVSwitch' pci_busid='0000:01:1%d.0' "
                "pci_type='0680 [10de:1ac2] [0000:0000] a1' pci_link_speed='1'/>\n",
                50 + i, i);
}

static void board_links(FILE *f, const struct board_link *links, int count)
{
    fprintf(f, "<distances2hetero nbobjs='%d' kind='25' name='NVLinkBandwidth'>\n", BOARD_OBJECTS);
    for (int i = 0; i < BOARD_OBJECTS; i++)
        fprintf(f,
                i < BOARD_GPUS ? "<indexes length='9'>OSDev:%d </indexes>\n"
                               : "<indexes length='10'>PCIDev:%d </indexes>\n",
                i < BOARD_GPUS ? 40 + i : 50 + i - BOARD_GPUS);
    for (int i = 0; i < BOARD_OBJECTS; i++)
        for (int j = 0; j < BOARD_OBJECTS; j++) {
            int mb_per_s = 0;
            for (int k = 0; k < count; k++)
                if ((links[k].a == i && links[k].b == j) || (links[k].a == j && links[k].b == i))
                    mb_per_s = links[k].mb_per_s;
            fprintf(f, "<u64values length='6'>%05d </u64values>\n", mb_per_s);
        }
    fprintf(f, "</distances2hetero>\n");
}

static void board_text(FILE *f, const struct board_link *links, int count)
{
    fprintf(f, "<?xml version='1.0' encoding='UTF-8'?>\n"
               "<!DOCTYPE topology SYSTEM 'hwloc2.dtd'>\n<topology version='2.0'>\n"
               "<object type='Machine' os_index='0' cpuset='0xf' complete_cpuset='0xf' "
               "allowed_cpuset='0xf' nodeset='0x1' complete_nodeset='0x1' allowed_nodeset='0x1' "
               "gp_index='1'>\n"
               "<object type='NUMANode' os_index='0' cpuset='0xf' complete_cpuset='0xf' "
               "nodeset='0x1' complete_nodeset='0x1' gp_index='2' local_memory='1000000000'/>\n");
    for (int c = 0; c < 4; c++)
        fprintf(f,
                "<object type='Core' os_index='%d' cpuset='0x%x' complete_cpuset='0x%x' "
                "nodeset='0x1' complete_nodeset='0x1' gp_index='%d'><object type='PU' "
                "os_index='%d' cpuset='0x%x' complete_cpuset='0x%x' nodeset='0x1' "
                "complete_nodeset='0x1' gp_index='%d'/></object>\n",
                c, 1 << c, 1 << c, 3 + c, c, 1 << c, 1 << c, 10 + c);
    fprintf(f, "<object type='Bridge' gp_index='19' bridge_type='0-1' depth='0' "
               "bridge_pci='0000:[01-09]'>\n");
    board_pci(f);
    fprintf(f, "</object>\n</object>\n");
    board_links(f, links, count);
    fprintf(f, "</topology>\n");
}

/* The caller frees it with sw_machine_free. */
static struct sw_machine *board(const struct board_link *links, int count)
{
    const char *path = scratch_path("board.xml");
    char *text;
    size_t bytes;
    FILE *memory = open_memstream(&text, &bytes), *f = fopen(path, "w");
    assert_true(memory && f);
    board_text(memory, links, count);
    assert_int_equal(fclose(memory), 0);
    for (char *c = text; *c; c++)
        fputc(*c == '\'' ? '"' : *c, f); /* hwloc supports no others */
    assert_int_equal(fclose(f), 0);
    free(text);
    return from(path);
}
