package statistics

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// Sample is what vmstatus tells of a guest (qemu-server QemuServer.pm).
func Sample(g *state.Guest) Guest {
	c := g.Config
	st := Guest{Name: c["name"], Template: c["template"] == "1", Running: g.Running != nil, Memory: 512 << 20}
	if g.Type == "lxc" {
		st.Name = c["hostname"]
	}
	if st.Name == "" {
		st.Name = fmt.Sprintf("VM %d", g.VMID)
	}
	st.Cpus = max(1, perl.Number(c["sockets"])) * max(1, perl.Number(c["cores"]))
	if n := perl.Number(c["vcpus"]); n > 0 {
		st.Cpus = n
	}
	memory, _, _ := strings.Cut(strings.TrimPrefix(c["memory"], "current="), ",")
	if n := perl.Number(memory); n > 0 {
		st.Memory = int64(n) << 20
	}
	st.Disk = BootDiskSize(c)
	if g.Running != nil {
		st.StartedAt, st.QMPStatus = g.Running.StartedAt, cmp.Or(g.Running.QMPStatus, "running")
	}
	return st
}

// BootDiskSize is the size of the first disk in the boot order, of the root volume in a container.
func BootDiskSize(c map[string]string) int64 {
	order, _ := strings.CutPrefix(c["boot"], "order=")
	keys := append(strings.Split(order, ";"), "rootfs")
	for _, key := range keys {
		value := c[key]
		if value == "" || strings.Contains(value, "media=cdrom") || strings.HasPrefix(key, "net") {
			continue
		}
		for _, part := range strings.Split(value, ",") {
			if size, ok := strings.CutPrefix(part, "size="); ok {
				if n, ok := schema.ParseSize(size); ok {
					return n
				}
			}
		}
	}
	return 0
}
