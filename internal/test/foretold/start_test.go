package foretold_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// needed is something without which a node starts no guest: the options that name it, and how it goes.
type needed struct {
	has  map[string]string
	goes func(w *state.World, config map[string]string)
	// instead is a configuration with which the guest does not need it; "" where there is none.
	instead string
	// tells is the warning of a finding that is doubtful; "" for an error.
	tells string
}

// aFile is a need of a file on the storage local.
func aFile(has map[string]string, file, instead string) needed {
	return needed{has: has, instead: instead, goes: func(w *state.World, _ map[string]string) {
		for key, v := range w.Volumes {
			if v.Name == file {
				delete(w.Volumes, key)
			}
		}
	}}
}

// needs are the rows of the law.
func needs() map[string]needed {
	becomes := func(option, value string) func(*state.World, map[string]string) {
		return func(w *state.World, config map[string]string) {
			config[option] = value
			w.Nodes["pve1"].CPUs = 4 // of a running guest only the node changes
		}
	}
	return map[string]needed{
		"medium":     aFile(map[string]string{"ide3": "local:iso/law.iso,media=cdrom"}, "iso/law.iso", `cdroms = { ide3 = { file = "local:iso/debian.iso" } }`),
		"snippet":    aFile(map[string]string{"cicustom": "vendor=local:snippets/law.yaml"}, "snippets/law.yaml", `cloud_init = { custom = { vendor = "local:snippets/user.yaml" } }`),
		"hookscript": aFile(map[string]string{"hookscript": "local:snippets/law.yaml"}, "snippets/law.yaml", ""),
		"bridge": {has: map[string]string{"net1": "virtio=BC:24:11:00:00:09,bridge=vmbr1"}, tells: `Unknown bridge "vmbr1"`,
			goes: func(w *state.World, _ map[string]string) { w.Nodes["pve1"].Bridges = []string{"vmbr0"} }, instead: `networks = { net1 = { bridge = "vmbr0" } }`},
		"cores":   {has: map[string]string{"cores": "6"}, goes: becomes("cores", "6"), instead: "cpu = { cores = 2 }"},
		"machine": {has: map[string]string{}, goes: becomes("machine", "pc-q35-99.0"), instead: `machine = "q35"`},
		"mapping": {has: map[string]string{}, goes: becomes("hostpci0", "mapping=gone")},
	}
}

// source makes the guests of a way have what a row needs.
func (n needed) source(w *state.World) {
	w.AddBackup("pve1")
	for _, file := range []string{"iso/law.iso", "snippets/law.yaml"} {
		content, _, _ := strings.Cut(file, "/")
		w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: file, Content: content, Format: strings.TrimSuffix(content, "s"), Size: 100, Data: "#!/bin/sh"})
	}
	for _, config := range configs(w) {
		maps.Copy(config, n.has)
	}
}

// configs are those of the sources, and of the VM's snapshot.
func configs(w *state.World) []map[string]string {
	all := []map[string]string{w.Guests[9000].Config}
	for _, v := range w.Volumes {
		if v.Backup != nil {
			all = append(all, v.Backup.Config)
		}
	}
	if g := w.Guests[500]; g != nil {
		for _, snapshot := range g.Snaps {
			all = append(all, snapshot)
		}
	}
	return all
}

const (
	ofTemplate = "protection = false\nclone = { vmid = 9000 }\n"
	ofSnapshot = "protection = false\nclone = { vmid = 500, snapshot = \"gold\", full = true }\n"
	ofBackup   = "protection = false\nrestore = { archive = \"" + rig.WebBackup + "\" }\n"
)

// TestLawStartsAsPlanned: where something is gone without which the node does not start the guest, either the plan tells it, or the guest runs
// after the apply. That is so of a copy that is made or takes the place of another one, and of a guest that a change restarts.
func TestLawStartsAsPlanned(t *testing.T) {
	t.Parallel()
	for name, n := range needs() {
		for way, body := range map[string]string{"clone": ofTemplate, "snapshot": ofSnapshot, "restore": ofBackup} {
			for _, replaced := range []bool{false, true} {
				t.Run(name+", "+way+map[bool]string{true: " replaced"}[replaced], func(t *testing.T) {
					t.Parallel()
					w, s := startable(t, n, body)
					if replaced {
						rig.Must(t, s.Converge(t.Context()))
						s.Taint("proxmox_vm.x", true)
					}
					n.gone(w)
					told(t, w, s, n)
				})
			}
		}
		t.Run(name+", restart", func(t *testing.T) {
			t.Parallel()
			if len(n.has) == 0 {
				t.Skip("a running guest has none that its node lacks")
			}
			w, s := startable(t, n, ofTemplate)
			rig.Must(t, s.Converge(t.Context()))
			n.gone(w)
			w.Reconfigure(t, s, rig.TokenNoSSH, rig.NodeVMBlock(ofTemplate+"bios = \"ovmf\"\nefi_disk = { storage = \"local-zfs\" }\n"))
			told(t, w, s, n)
		})
	}
}

// startable is a session with a copy in its configuration, whose source has what the row needs.
func startable(t *testing.T, n needed, body string) (*rig.World, *terraformtest.Session) {
	t.Helper()
	w := rig.NewWorld(t)
	w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop, state.PowerReboot)
	if strings.Contains(body, "gold") {
		rig.Must(t, w.Session(t, rig.TokenNoSSH, `
resource "proxmox_vm" "s" {
  node        = "pve1"
  vmid        = 500
  name        = "s"
  power_state = "stopped"
  disks       = { scsi0 = { storage = "local-lvm", size = "1G" } }
  cloud_init  = { storage = "local-lvm" }
}
resource "proxmox_vm_snapshot" "s" {
  vmid = proxmox_vm.s.vmid
  name = "gold"
}
`).Converge(t.Context()))
	}
	w.Change(n.source)
	s := w.Session(t, rig.TokenNoSSH, rig.NodeVMBlock(body))
	return w, s
}

// gone has what a row needs go.
func (n needed) gone(w *rig.World) {
	w.Change(func(world *state.World) {
		for _, config := range configs(world) {
			n.goes(world, config)
		}
	})
}

// told holds a plan against its apply.
func told(t *testing.T, w *rig.World, s *terraformtest.Session, n needed) {
	t.Helper()
	before := rig.GuestOf(w, 400)
	_, err := s.Plan(t.Context())
	said := s.Diagnostics().String()
	switch {
	case n.tells != "" && strings.Contains(said, n.tells):
		return
	case err == nil:
		t.Logf("the plan says %s", said)
		t.Errorf("no error in the plan; the apply: %v", s.Run(t.Context()))
	case before.Config != nil && rig.GuestOf(w, 400).Running == nil:
		t.Error("the plan has stopped the guest")
	}
}

// TestNoAlarmOfWhatNoStartNeeds: nothing is said where the thing is there, where the configuration has another one in its place, where the
// guest is not started, and where the change needs no restart.
func TestNoAlarmOfWhatNoStartNeeds(t *testing.T) {
	t.Parallel()
	for name, n := range needs() {
		for way, body := range map[string]string{"clone": ofTemplate, "snapshot": ofSnapshot, "restore": ofBackup} {
			for why, more := range map[string]string{"instead": n.instead, "off": `power_state = "stopped"`, "there": " "} {
				if more == "" || why == "off" && name == "mapping" { // which PVE asks for, too
					continue
				}
				t.Run(name+", "+way+", "+why, func(t *testing.T) {
					t.Parallel()
					w, s := startable(t, n, body+more)
					if why != "there" {
						n.gone(w)
					}
					quiet(t, s)
				})
			}
		}
		t.Run(name+", no restart", func(t *testing.T) {
			t.Parallel()
			w, s := startable(t, n, ofTemplate)
			rig.Must(t, s.Converge(t.Context()))
			n.gone(w)
			for _, more := range []string{`tags = ["a"]`, "bios = \"ovmf\"\nefi_disk = { storage = \"local-zfs\" }\nreboot_policy = \"never\""} {
				w.Reconfigure(t, s, rig.TokenNoSSH, rig.NodeVMBlock(ofTemplate+more))
				rig.Must(t, s.Run(t.Context()))
			}
			if rig.GuestOf(w, 400).Running == nil {
				t.Error("the guest is off")
			}
		})
	}
}

// quiet applies a configuration, in whose plan nothing is missing.
func quiet(t *testing.T, s *terraformtest.Session) {
	t.Helper()
	_, err := s.Plan(t.Context())
	rig.Must(t, err)
	if said := s.Diagnostics().String(); strings.Contains(said, "Unknown") || strings.Contains(said, "There is no") {
		t.Errorf("the plan says %s", said)
	}
	rig.Must(t, s.Run(t.Context()))
}
