package server

import (
	"maps"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/access"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/cluster"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/container"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/firewall"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/ha"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/migrate"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/agent"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/clone"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/config"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/console"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/lifecycle"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/power"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/status"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/snapshot"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/storage"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/task"
)

func qemuRoutes() engine.Routes {
	r := engine.Routes{
		"GET /nodes/{node}/qemu":                         status.List,
		"POST /nodes/{node}/qemu":                        lifecycle.Create,
		"GET /nodes/{node}/qemu/{vmid}":                  guest.QemuIndex,
		"DELETE /nodes/{node}/qemu/{vmid}":               lifecycle.Destroy,
		"GET /nodes/{node}/qemu/{vmid}/config":           config.Get,
		"PUT /nodes/{node}/qemu/{vmid}/config":           config.Put,
		"POST /nodes/{node}/qemu/{vmid}/config":          config.Post,
		"GET /nodes/{node}/qemu/{vmid}/pending":          config.Pending,
		"PUT /nodes/{node}/qemu/{vmid}/unlink":           config.Unlink,
		"POST /nodes/{node}/qemu/{vmid}/clone":           clone.Clone,
		"PUT /nodes/{node}/qemu/{vmid}/resize":           clone.Resize,
		"POST /nodes/{node}/qemu/{vmid}/move_disk":       clone.MoveDisk,
		"POST /nodes/{node}/qemu/{vmid}/template":        clone.Template,
		"GET /nodes/{node}/qemu/{vmid}/feature":          clone.Feature,
		"GET /nodes/{node}/qemu/{vmid}/migrate":          migrate.Check,
		"POST /nodes/{node}/qemu/{vmid}/migrate":         migrate.Migrate,
		"GET /nodes/{node}/qemu/{vmid}/cloudinit":        config.CloudinitPending,
		"PUT /nodes/{node}/qemu/{vmid}/cloudinit":        config.CloudinitUpdate,
		"GET /nodes/{node}/qemu/{vmid}/cloudinit/dump":   config.CloudinitDump,
		"GET /nodes/{node}/qemu/{vmid}/status":           guest.Index,
		"GET /nodes/{node}/qemu/{vmid}/status/current":   status.Current,
		"POST /nodes/{node}/qemu/{vmid}/status/start":    power.Start,
		"POST /nodes/{node}/qemu/{vmid}/status/stop":     power.Stop,
		"POST /nodes/{node}/qemu/{vmid}/status/shutdown": power.Shutdown,
		"POST /nodes/{node}/qemu/{vmid}/status/reboot":   power.Reboot,
		"POST /nodes/{node}/qemu/{vmid}/status/reset":    power.Reset,
		"POST /nodes/{node}/qemu/{vmid}/status/suspend":  power.Suspend,
		"POST /nodes/{node}/qemu/{vmid}/status/resume":   power.Resume,
	}
	maps.Copy(r, power.BulkRoutes())
	return r
}

// areas are the routes, grouped by subject.
func areas() []engine.Routes {
	return []engine.Routes{
		access.Routes(), access.RoleRoutes(), access.UserRoutes(), cluster.Routes(), cluster.NodeRoutes(), task.Routes(),
		cluster.PoolRoutes(),
		ha.Routes(), ha.GroupRoutes(), ha.RuleRoutes(), cluster.JobRoutes(), lifecycle.BackupRoutes(),
		qemuRoutes(), container.Routes(), agent.Routes(), snapshot.Routes(), storage.Routes(), firewall.Routes(),
		cluster.CapabilityRoutes(), cluster.NodeFileRoutes(),
		console.Routes(), access.GroupRoutes(), cluster.MappingRoutes(), cluster.InventoryRoutes(),
		cluster.StatisticsRoutes(),
	}
}

// routes are all that the simulator gives a meaning to.
func routes() engine.Routes {
	all := engine.Routes{}
	for _, area := range areas() {
		maps.Copy(all, area)
	}
	return all
}
