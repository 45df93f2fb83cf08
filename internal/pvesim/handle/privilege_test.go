package handle

import (
	"slices"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestRecordedPrivileges takes one privilege away from an otherwise sufficient role and repeats the recorded refusals.
func TestRecordedPrivileges(t *testing.T) {
	const vm, config = "/nodes/pve1/qemu/810", "/nodes/pve1/qemu/810/config"
	for _, row := range []struct{ without, method, path, params, reason string }{
		{"VM.Allocate", "POST", "/nodes/pve1/qemu", "vmid=811&name=a", "Permission check failed"},
		{"VM.Allocate", "POST", "/nodes/pve1/qemu", "vmid=816&pool=web", "Permission check failed"},
		{"VM.Allocate", "POST", vm + "/clone", "newid=817&full=1", "Permission check failed"},
		{"VM.Allocate", "POST", vm + "/template", "", "Permission check failed (/vms/810, VM.Allocate)"},
		{"VM.Allocate", "DELETE", vm, "purge=1", "Permission check failed (/vms/810, VM.Allocate)"},
		{"VM.Clone", "POST", vm + "/clone", "newid=817&full=1", "Permission check failed (/vms/810, VM.Clone)"},
		{"VM.Audit", "GET", config, "", "Permission check failed (/vms/810, VM.Audit)"},
		{"VM.Audit", "GET", vm + "/pending", "", "Permission check failed (/vms/810, VM.Audit)"},
		{"VM.Audit", "GET", vm + "/status/current", "", "Permission check failed (/vms/810, VM.Audit)"},
		{"VM.PowerMgmt", "POST", vm + "/status/start", "", "Permission check failed (/vms/810, VM.PowerMgmt)"},
		{"VM.PowerMgmt", "POST", vm + "/status/stop", "", "Permission check failed (/vms/810, VM.PowerMgmt)"},
		{"VM.Monitor", "GET", vm + "/agent/network-get-interfaces", "", "Permission check failed (/vms/810, VM.Monitor)"},
		{"VM.Snapshot", "POST", vm + "/snapshot", "snapname=s1", "Permission check failed (/vms/810, VM.Snapshot)"},
		{"VM.Config.Disk", "PUT", config, "boot=order%3Dscsi0", "Permission check failed (/vms/810, VM.Config.Disk)"},
		{"VM.Config.Disk", "PUT", config, "scsi1=local-zfs:1", "Permission check failed (/vms/810, VM.Config.Disk)"},
		{"VM.Config.Disk", "PUT", vm + "/resize", "disk=scsi0&size=%2B64M", "Permission check failed (/vms/810, VM.Config.Disk)"},
		{"VM.Config.Disk", "POST", vm + "/move_disk", "disk=scsi0&storage=local2", "Permission check failed (/vms/810, VM.Config.Disk)"},
		{"VM.Config.CPU", "PUT", config, "cores=2", "Permission check failed (/vms/810, VM.Config.CPU)"},
		{"VM.Config.Memory", "PUT", config, "memory=128", "Permission check failed (/vms/810, VM.Config.Memory)"},
		{"VM.Config.Network", "POST", "/nodes/pve1/qemu", "vmid=813&net0=virtio,bridge%3Dvmbr0", "Permission check failed (/vms/813, VM.Config.Network)"},
		{"VM.Config.Network", "PUT", config, "net1=virtio,bridge%3Dvmbr0", "Permission check failed (/vms/810, VM.Config.Network)"},
		{"VM.Config.Network", "PUT", vm + "/firewall/options", "enable=1", "Permission check failed (/vms/810, VM.Config.Network)"},
		{"VM.Config.HWType", "PUT", config, "machine=q35", "Permission check failed (/vms/810, VM.Config.HWType)"},
		{"VM.Config.HWType", "PUT", config, "serial0=socket", "Permission check failed (/vms/810, VM.Config.HWType)"},
		{"VM.Config.Options", "POST", "/nodes/pve1/qemu", "vmid=811&name=a", "Permission check failed (/vms/811, VM.Config.Options)"},
		{"VM.Config.Options", "PUT", config, "tags=t", "Permission check failed (/vms/810, VM.Config.Options)"},
		{"VM.Config.Options", "PUT", config, "agent=1", "Permission check failed (/vms/810, VM.Config.Options)"},
		{"VM.Config.Options", "PUT", config, "startup=order%3D1", "Permission check failed (/vms/810, VM.Config.Options)"},
		{"VM.Config.Cloudinit", "PUT", vm + "/cloudinit", "", "Permission check failed (/vms/810, VM.Config.Cloudinit)"},
		{"Datastore.AllocateSpace", "POST", "/nodes/pve1/qemu", "vmid=812&scsi0=local-zfs:1", "Permission check failed (/storage/local-zfs, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "PUT", config, "scsi1=local-zfs:1", "Permission check failed (/storage/local-zfs, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "PUT", vm + "/resize", "disk=scsi0&size=%2B64M", "403 Permission check failed (/storage/local-zfs, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "POST", vm + "/move_disk", "disk=scsi0&storage=local2&delete=1", "Permission check failed (/storage/local2, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "POST", vm + "/clone", "newid=817&full=1", "Permission check failed (/storage/local-zfs, Datastore.AllocateSpace)"},
		{"Datastore.AllocateSpace", "POST", "/nodes/pve1/storage/local-zfs/content", "vmid=810&filename=vm-810-disk-9&size=1G", "Permission check failed (/storage/local-zfs, Datastore.AllocateSpace)"},
		{"Datastore.Allocate", "DELETE", "/nodes/pve1/storage/local-zfs/content/local-zfs:vm-810-disk-9", "", "Permission check failed (/storage/local-zfs, Datastore.Allocate)"},
		{"SDN.Use", "POST", "/nodes/pve1/qemu", "vmid=813&net0=virtio,bridge%3Dvmbr0", "Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)"},
		{"SDN.Use", "PUT", config, "net1=virtio,bridge%3Dvmbr0", "Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)"},
		{"SDN.Use", "POST", vm + "/clone", "newid=817&full=1", "Permission check failed (/sdn/zones/localnetwork/vmbr0, SDN.Use)"},
		{"Sys.Modify", "PUT", config, "startup=order%3D1", "Permission check failed (/, Sys.Modify)"},
	} {
		t.Run(row.without+" "+row.method+" "+row.path+" "+row.params, func(t *testing.T) {
			g := newRig(t, func(c *Config) {
				w := c.World
				w.Roles["TerraformProvider"] = append(slices.Clone(w.Roles["TerraformProvider"]), "Sys.Modify")
				orphan(w, "local-zfs", "vm-810-disk-0", 810, 1<<30)
				w.Guests[810] = &state.Guest{VMID: 810, Type: "qemu", Node: "pve1", Config: map[string]string{
					"scsi0": "local-zfs:vm-810-disk-0,size=1G", "net0": "virtio=BC:24:11:00:00:10,bridge=vmbr0", "agent": "1",
				}}
			})
			outcome := func() string {
				r := g.do("terraform@pve!prov", row.method, row.path, row.params)
				if upid, ok := r.body.Data.(string); ok && r.status == 200 && g.w.Tasks[upid] != nil {
					return g.w.Tasks[upid].ExitStatus
				}
				return r.reason
			}
			all := g.w.Roles["TerraformProvider"]
			g.w.Roles["TerraformProvider"] = slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == row.without })
			if got := outcome(); got != row.reason {
				t.Errorf("without it: %q, want %q", got, row.reason)
			}
			g.check()
			g.w.Roles["TerraformProvider"] = all
			if got := outcome(); got != "OK" && got != "VM 810 is not running" {
				t.Errorf("with it: %q", got)
			}
			g.check()
		})
	}
}
