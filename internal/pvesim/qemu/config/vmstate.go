package config

import (
	"strconv"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/perl"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/qemu/drive"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/volume"
)

// StateVolume allocates the volume for the memory of a guest.
func StateVolume(p engine.Process, g *state.Guest, name, storage string) (*state.Volume, error) {
	if storage == "" {
		storage = StateStorage(p, g)
	}
	memory := int64(perl.Number(perl.Subvalue(g.Config["memory"], "current", true)))
	if memory == 0 {
		memory = 512
	}
	file := "vm-" + strconv.Itoa(g.VMID) + "-state-" + name
	s := p.W.Storages[storage]
	if s != nil && s.IsDir() {
		file += ".raw"
	}
	v, err := volume.Alloc(p, g.Node, storage, g.VMID, file, "raw", (2*memory+500)<<20)
	if err == nil {
		volume.Formatted(p, s, v)
	}
	return v, err
}

// StateStorage is where the memory of a guest goes: where it says, else to a shared storage that it has a disk on, else
// to a local one, among equals to the first unless a later one holds files (QemuServer.pm, find_vmstate_storage).
func StateStorage(p engine.Process, g *state.Guest) string {
	if s := g.Config["vmstatestorage"]; s != "" {
		return s
	}
	found := map[bool]string{} // by shared
	opts, volids := drive.DisksOf(p.Engine, g.Config)
	for _, opt := range opts {
		id, _, ok := state.SplitVolid(volids[opt])
		s := p.W.Storages[id]
		if ok && s != nil && (found[s.Shared] == "" || s.IsDir()) {
			found[s.Shared] = id
		}
	}
	for _, shared := range []bool{true, false} {
		if found[shared] != "" {
			return found[shared]
		}
	}
	return "local"
}

// SaveState writes the memory of a running guest to its volume (QemuConfig.pm, __snapshot_create_vol_snapshots_hook).
func SaveState(p engine.Process, volid string) {
	storage, _, _ := state.SplitVolid(volid)
	p.Logf("saving VM state and RAM using storage '%s'", storage)
	p.Logf("0.00 B in 0s")
	p.Logf("completed saving the VM state in 1s, saved %s", savedSize)
}

const savedSize = "20.00 MiB"

// RunningCPU is what a snapshot with memory notes of the processor.
func RunningCPU(conf map[string]string) string {
	cpu := perl.Subvalue(conf["cpu"], "cputype", true)
	if cpu == "" {
		cpu = "kvm64"
	}
	return cpu + ",enforce,+kvm_pv_eoi,+kvm_pv_unhalt,+lahf_lm,+sep"
}
