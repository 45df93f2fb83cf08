package handle

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/schema"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// sampleGuest is what vmstatus tells of a guest (qemu-server QemuServer.pm).
func sampleGuest(g *state.Guest) guestStats {
	c := g.Config
	st := guestStats{name: c["name"], template: c["template"] == "1", running: g.Running != nil, memory: 512 << 20}
	if g.Type == "lxc" {
		st.name = c["hostname"]
	}
	if st.name == "" {
		st.name = fmt.Sprintf("VM %d", g.VMID)
	}
	st.cpus = max(1, number(c["sockets"])) * max(1, number(c["cores"]))
	if n := number(c["vcpus"]); n > 0 {
		st.cpus = n
	}
	memory, _, _ := strings.Cut(strings.TrimPrefix(c["memory"], "current="), ",")
	if n := number(memory); n > 0 {
		st.memory = int64(n) << 20
	}
	st.disk = bootDiskSize(c)
	if g.Running != nil {
		st.startedAt = g.Running.StartedAt
	}
	return st
}

// bootDiskSize is the size of the first disk in the boot order, of the root volume in a container.
func bootDiskSize(c map[string]string) int64 {
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

func itoa(n int) string { return strconv.Itoa(n) }

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
