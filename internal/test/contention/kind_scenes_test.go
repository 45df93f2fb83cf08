package contention_test

import (
	"fmt"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guard"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/kinds"
)

// kindScenes are creates that move, import and convert disks, and their undos: the templates and the archive of package kinds.
func kindScenes() []scene {
	create := func(body string) string {
		return fmt.Sprintf("resource \"proxmox_vm\" \"x\" {\n  vmid = 200\n  name = \"web-4\"\n%s}\n", body)
	}
	const (
		moved = `  clone = { vmid = 9100, full = true }
  disks = {
    scsi0 = { storage = "local-lvm", size = "8G" }
    scsi1 = { storage = "local", size = "3G" }
    scsi2 = { storage = "local-zfs", size = "2G" }
    scsi3 = { storage = "local-zfs", size = "9G", import_from = "local:import/disk.qcow2" }
  }
  protection  = false
`
		away = `  node  = "pve2"
  clone = { vmid = 9100, full = true }
  disks = {
    scsi0 = { storage = "local-lvm", size = "8G" }
    scsi2 = { storage = "local-zfs", size = "2G" }
  }
  protection  = false
`
		linked = `  clone = { vmid = 9100, full = false }
  disks = { scsi2 = { storage = "local-zfs", size = "2G" } }
  protection = false
  template   = true
`
		shared = `  clone = { vmid = 9100, full = true }
  disks = {
    scsi0 = { storage = "shared-nfs" }
    scsi2 = { storage = "shared-nfs", size = "2G" }
  }
  protection  = false
  power_state = "running"
`
		scratch = `  node       = "pve1"
  bios       = "ovmf"
  efi_disk   = { storage = "local-zfs", type = "4m" }
  tpm_state  = { storage = "local-zfs", version = "v2.0" }
  cloud_init = { storage = "local-zfs", user = "ops" }
  disks = {
    scsi0 = { storage = "local-zfs", size = "9G", import_from = "local:import/disk.qcow2" }
    scsi1 = { storage = "local", size = "3G" }
  }
`
		restored = `  node    = "pve1"
  restore = { archive = "local:backup/vzdump-qemu-700-2026_01_01-00_00_00.vma.zst" }
  disks = {
    scsi1 = { storage = "local-zfs" }
    scsi2 = { storage = "local", size = "2G" }
  }
  protection = false
  template   = true
`
		running = "  power_state = \"running\"\n"
	)
	prepare := func(w *state.World) {
		w.AddBackup("pve1")
		kinds.World(w)
	}
	failed := func(method, path string, phase fault.Phase) []fault.Rule {
		return []fault.Rule{{Match: fault.Match{Method: method, Path: path}, Phase: phase}}
	}
	const start, migrate, convert = "/nodes/{node}/qemu/{vmid}/status/start", "/nodes/{node}/qemu/{vmid}/migrate", "/nodes/{node}/qemu/{vmid}/template"
	list := []scene{
		{name: "clone with moves", after: create(moved + running)},
		{name: "undo of a clone with moves", after: create(moved + running), faults: failed("POST", start, fault.Task)},
		{name: "clone to another node", after: create(away + running)},
		{name: "undo of a clone on another node", after: create(away + running), faults: failed("POST", start, fault.Task)},
		{name: "undo of a killed migration", after: create(away), faults: failed("POST", migrate, fault.KillTask)},
		{name: "linked clone, template", after: create(linked)},
		{name: "undo of a failed conversion", after: create(linked), faults: failed("POST", convert, fault.Task)},
		{name: "clone to a shared storage", after: create(shared)},
		{name: "undo of a clone on a shared storage", after: create(shared), faults: failed("POST", start, fault.Task)},
		{name: "firmware from scratch", after: create(scratch + running)},
		{name: "undo of a killed conversion", after: create(scratch + "  template = true\n"), faults: failed("POST", convert, fault.KillTask)},
		{name: "restore of a template", after: create(restored)},
	}
	for n := range list {
		list[n].vmid, list[n].prepare, list[n].do = 200, prepare, applies
		list[n].taskTime = guard.UseLife + time.Second // a disk that others attach sooner is not looked for (guard.CheckMade)
	}
	return list
}
