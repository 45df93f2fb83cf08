package storage_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// TestReplacementByACopyOfItself: a replacement destroys the VM first, so a copy of it, or of a disk of it, would find nothing to
// copy. The plan says so, the destroy refuses, and nothing is touched. With create_before_destroy the copy is made first.
func TestReplacementByACopyOfItself(t *testing.T) {
	t.Parallel()
	const efi, tpm = "bios = \"ovmf\"\nefi_disk = { storage = \"local-zfs\", type = \"4m\", pre_enrolled_keys = false%s }\n",
		"tpm_state = { storage = \"local-zfs\", version = \"v2.0\"%s }\n"
	size, from := ", size = \"1G\"", func(volume string) string { return fmt.Sprintf(", import_from = %q", volume) }
	disk := func(which string) string { return "disks = { scsi0 = { storage = \"local-zfs\"" + which + " } }\n" }
	cases := map[string]struct {
		before, after string
		vmid          int // of the new VM, 0 for one of PVE's choice
		refused       bool
		how           string
	}{
		"disk, another id":     {before: disk(size), after: disk(from("local-zfs:vm-400-disk-0")), vmid: 401},
		"disk, its own id":     {before: disk(from("local:import/disk.qcow2")), after: disk(from("local-zfs:vm-400-disk-0")), vmid: 400, refused: true},
		"disk, any id":         {before: disk(from("local:import/disk.qcow2")), after: disk(from("local-zfs:vm-400-disk-0"))},
		"disk, -replace":       {before: disk(size), after: disk(from("local-zfs:vm-400-disk-0")), vmid: 400, how: "-replace"},
		"disk, tainted":        {before: disk(size), after: disk(from("local-zfs:vm-400-disk-0")), vmid: 401, how: "tainted"},
		"EFI disk, another id": {before: fmt.Sprintf(efi, ""), after: fmt.Sprintf(efi, from("local-zfs:vm-400-disk-0")), vmid: 401},
		"TPM, another id":      {before: fmt.Sprintf(tpm, ""), after: fmt.Sprintf(tpm, from("local-zfs:vm-400-disk-0")), vmid: 401},
		"clone of the id":      {before: disk(size), after: "clone = { vmid = 400, full = true }\n", vmid: 401},
		"clone of the name":    {before: disk(size), after: "clone = { name = \"x\", full = true }\n", vmid: 401},
	}
	block := func(vmid int, body, more string) string {
		id := fmt.Sprintf("vmid = %d\n", vmid)
		if vmid == 0 {
			id = ""
		}
		return rig.VMBlock(id + "node = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\n" + body + more)
	}
	for name, c := range cases {
		for _, first := range []string{"", "lifecycle { create_before_destroy = true }\n"} {
			t.Run(name+" "+first, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				s := w.Session(t, rig.TokenNoSSH, block(400, c.before, first))
				rig.Must(t, s.Converge(t.Context()))
				w.Change(func(world *state.World) {
					for _, v := range world.Volumes {
						if v.VMID == 400 {
							v.Data = "precious"
						}
					}
				})
				w.Sim.Advance(20e9)
				w.Reconfigure(t, s, rig.TokenNoSSH, block(c.vmid, c.after, first))
				var options []terraformtest.PlanOption
				if s.Taint(rig.VMAddress, c.how == "tainted"); c.how == "-replace" {
					options = append(options, terraformtest.Replacing(rig.VMAddress))
				}
				pl, err := s.Plan(t.Context(), options...)
				if c.refused {
					rig.MustSay(t, err, "Cannot replace VM 400", "create_before_destroy")
					return
				}
				if rig.Must(t, err); c.how == "" {
					rig.MustSayAll(t, fmt.Sprint(s.Diagnostics()), "is replaced by a copy of itself", "create_before_destroy")
				}
				err = s.Apply(t.Context(), pl)
				if first == "" {
					rig.MustSay(t, err, "Cannot replace VM 400", "Nothing was touched", "create_before_destroy")
					if !slices.Equal(s.Addresses(), []string{rig.VMAddress}) || rig.GuestOf(w, 400).VMID == 0 {
						t.Errorf("in state there is %v, the VM %v", s.Addresses(), rig.GuestOf(w, 400))
					}
					rig.Must(t, s.Destroy(t.Context())) // which is not the beginning of a replacement
					return
				}
				if rig.GuestOf(w, 400).VMID != 0 != (err != nil) {
					t.Errorf("%v, and VM 400 is there: %v", err, rig.GuestOf(w, 400))
				}
				if err == nil {
					rig.Must(t, s.Destroy(t.Context()))
				}
			})
		}
	}
}

// TestReplacementByACopyOfAnotherVM goes without a word, and so does the VM that a copy was made of, once that is there.
func TestReplacementByACopyOfAnotherVM(t *testing.T) {
	t.Parallel()
	w := rig.NewWorld(t)
	w.ExpectPowerOffs(state.PowerShutdown, state.PowerStop)
	source := strings.Replace(rig.NodeVMBlock("power_state = \"stopped\"\ndisks = { scsi0 = { storage = \"local-zfs\", size = \"1G\" } }"), "\"x\" {",
		"\"source\" {", 1)
	copied := func(vmid int) string {
		return rig.VMBlock(fmt.Sprintf("vmid = %d\nname = \"copy\"\nnode = \"pve1\"\npower_state = \"stopped\"\n"+
			"disks = { scsi0 = { storage = \"local-zfs\", import_from = \"local-zfs:vm-400-disk-0\" } }\n", vmid))
	}
	s := w.Session(t, rig.TokenNoSSH, source)
	rig.Must(t, s.Converge(t.Context()))
	for _, vmid := range []int{401, 402} {
		w.Reconfigure(t, s, rig.TokenNoSSH, source+copied(vmid))
		rig.Must(t, s.Converge(t.Context()))
	}
	w.Reconfigure(t, s, rig.TokenNoSSH, copied(402))
	rig.Must(t, s.Converge(t.Context()))
	if said := fmt.Sprint(s.Diagnostics()); strings.Contains(said, "copy of itself") {
		t.Error(said)
	}
}

// TestPlanTellsThatASourceLeaves: a VM leaves the configuration, and a new one under another address is copied of it, by clone or by one of
// its disks. Terraform orders neither first, and the plan says so, whichever address it plans first. A VM that is copied of another
// one goes without a word.
func TestPlanTellsThatASourceLeaves(t *testing.T) {
	t.Parallel()
	const disk = "disks = { scsi0 = { storage = \"local-zfs\", %s } }\n"
	block := func(name string, vmid int, body string) string {
		return strings.Replace(rig.VMBlock(fmt.Sprintf("vmid = %d\nnode = \"pve1\"\nname = %q\npower_state = \"stopped\"\n", vmid, name)+body),
			"\"x\" {", strconv.Quote(name)+" {", 1)
	}
	empty := fmt.Sprintf(disk, "size = \"1G\"")
	for what, body := range map[string]string{
		"clone of its id":   "clone = { vmid = %d, full = true }\n",
		"clone of its name": "clone = { name = \"v%d\", full = true }\n",
		"its disk":          fmt.Sprintf(disk, "import_from = \"local-zfs:vm-%d-disk-0\""),
	} {
		for _, name := range []string{"a", "z"} {
			for of, told := range map[int]bool{400: true, 500: false} {
				t.Run(fmt.Sprintf("%s %s of %d", what, name, of), func(t *testing.T) {
					t.Parallel()
					w := rig.NewWorld(t)
					stays, goes := block("v500", 500, empty), block("v400", 400, empty)
					s := w.Session(t, rig.TokenNoSSH, stays+goes)
					rig.Must(t, s.Converge(t.Context()))
					w.Sim.Advance(20e9)
					w.Reconfigure(t, s, rig.TokenNoSSH, stays+block(name, 600, fmt.Sprintf(body, of)))
					pl, err := s.Plan(t.Context())
					rig.Must(t, err)
					said := fmt.Sprint(pl.Diagnostics, s.Diagnostics())
					if is := strings.Contains(said, "is copied of a VM that is destroyed"); is != told {
						t.Errorf("told %t: %s", is, said)
					}
					if told {
						rig.MustSayAll(t, said, "VM 600", "VM 400", "an apply of its own")
					}
				})
			}
		}
	}
}

// TestPlanTellsThatADiskOfAnotherVMLeaves: a VM loses a disk, or moves it and gets another one under its name, while another VM is to be
// copied of it. Terraform orders neither first, and the plan says so, whichever address it plans first. It says nothing where the disk
// stays with the VM, where another disk is copied, or where the copy is there already.
func TestPlanTellsThatADiskOfAnotherVMLeaves(t *testing.T) {
	t.Parallel()
	const system, data = "scsi0 = { storage = \"local-zfs\", size = \"1G\" }\n", "scsi1 = { storage = \"local-zfs\", size = \"2G\" }\n"
	disks := func(all ...string) string { return "disks = {\n" + strings.Join(all, "") + "}\n" }
	block := func(name string, vmid int, body string) string {
		return strings.Replace(rig.VMBlock(fmt.Sprintf("vmid = %d\nnode = \"pve1\"\nname = %q\npower_state = \"stopped\"\n", vmid, name)+body),
			"\"x\" {", strconv.Quote(name)+" {", 1)
	}
	destroys, detaches := "removed_disks = \"destroy\"\n", "removed_disks = \"detach\"\n"
	from := func(n int) string {
		return fmt.Sprintf("scsi1 = { storage = \"local-zfs\", import_from = \"local-zfs:vm-400-disk-%d\" }\n", n)
	}
	moved := disks(system, "scsi1 = { storage = \"local-lvm\", size = \"2G\" }\nscsi2 = { storage = \"local-zfs\", size = \"2G\" }\n")
	for what, c := range map[string]struct{ source, before, after, says string }{
		"new VM":           {destroys + disks(system), "", disks(system, from(1)), "is copied of a disk that is destroyed"},
		"VM that is there": {destroys + disks(system), disks(system), disks(system, from(1)), "is copied of a disk that is destroyed"},
		"disk that is there": {destroys + disks(system), disks(system, data), disks(system, from(1)),
			"gets no copy of a disk that is destroyed"},
		"moved":                        {moved, disks(system), disks(system, from(1)), "is copied of a disk that moves"},
		"clone":                        {destroys + disks(system), "", "clone = { vmid = 400, full = true }\n", "is copied of a VM that loses a disk"},
		"clone of the name":            {destroys + disks(system), "", "clone = { name = \"m\", full = true }\n", "is copied of a VM that loses a disk"},
		"clone beside a move":          {moved, "", "clone = { vmid = 400, full = true }\n", ""},
		"moved, and the disk is there": {moved, disks(system, data), disks(system, from(1)), ""},
		"detached":                     {detaches + disks(system), disks(system), disks(system, from(1)), ""},
		"another disk":                 {destroys + disks(system), disks(system), disks(system, from(0)), ""},
		"copied before":                {destroys + disks(system), disks(system, from(1)), disks(system, from(1)), ""},
	} {
		for _, name := range []string{"a", "z"} {
			t.Run(what+" "+name, func(t *testing.T) {
				t.Parallel()
				w := rig.NewWorld(t)
				s := w.Session(t, rig.TokenNoSSH, block("m", 400, disks(system, data)))
				rig.Must(t, s.Converge(t.Context()))
				w.Sim.Advance(20e9)
				if c.before != "" {
					w.Reconfigure(t, s, rig.TokenNoSSH, block("m", 400, disks(system, data))+block(name, 600, c.before))
					rig.Must(t, s.Converge(t.Context()))
					w.Sim.Advance(20e9)
				}
				w.Reconfigure(t, s, rig.TokenNoSSH, block("m", 400, c.source)+block(name, 600, c.after))
				pl, err := s.Plan(t.Context())
				rig.Must(t, err)
				said := fmt.Sprint(pl.Diagnostics, s.Diagnostics())
				if c.says != "" {
					rig.MustSayAll(t, said, "VM 600", c.says, "VM 400", "scsi1", "an apply of its own")
				} else if strings.Contains(said, "an apply of its own") {
					t.Error(said)
				}
			})
		}
	}
}
