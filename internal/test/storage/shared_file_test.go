package storage_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// sharedFile makes the configuration of one file of two resources, on a storage that both nodes have. one comes first and makes it.
type sharedFile struct {
	typ  string
	body func(t *testing.T, dir, version string) string
}

func (f sharedFile) of(t *testing.T, dir, one, two string, ordered bool) (config string) {
	t.Helper()
	for _, r := range [][3]string{{"one", "pve1", one}, {"two", "pve2", two}} {
		if r[2] != "" {
			config += fmt.Sprintf("resource %q %q {\n  node = %q\n  storage = \"shared-nfs\"\n%s\n", f.typ, r[0], r[1], f.body(t, dir, r[2]))
			if r[0] == "two" && one != "" && ordered {
				config += "  depends_on = [" + f.typ + ".one]\n"
			}
			config += "}\n"
		}
	}
	return config
}

func sharedFiles() []sharedFile {
	return []sharedFile{
		{"proxmox_image", func(t *testing.T, dir, version string) string {
			t.Helper()
			local := filepath.Join(dir, version+".iso")
			rig.Must(t, os.WriteFile(local, fmt.Appendf(make([]byte, 32769), "CD001 %s", version), 0o600))
			return fmt.Sprintf("  content = \"iso\"\n  source_file = %q", local)
		}},
		{"proxmox_cloud_init_iso", func(_ *testing.T, _, version string) string {
			return fmt.Sprintf("  name = \"web\"\n  user_data = \"#cloud-config\\nhostname: %s\\n\"", version)
		}},
		{"proxmox_snippet", func(_ *testing.T, _, version string) string {
			return fmt.Sprintf("  name = \"%s.yaml\"\n  content = \"#cloud-config\\nhostname: %s\\n\"", version, version)
		}},
	}
}

// onSharedStorage are the files of the test, as its storage lists them.
func onSharedStorage(w *rig.World) (names []string) {
	w.Change(func(world *state.World) {
		for _, v := range world.Volumes {
			if v.Storage == "shared-nfs" && (v.Content == "iso" || v.Content == "snippets") {
				names = append(names, v.Name)
			}
		}
	})
	slices.Sort(names)
	return names
}

// TestSharedFile: the resource that has made a file takes it with it. Where another in state has found it there, the plan says so, and
// the next one puts it there again. With depends_on Terraform plans the maker before it knows of the other.
func TestSharedFile(t *testing.T) {
	t.Parallel()
	for _, f := range sharedFiles() {
		for what, c := range map[string]struct {
			one, two string
			tainted  bool // the maker
			replaced bool // likewise, by -replace
			said     bool // in the plan
			left     int  // files of the first version after the apply
		}{
			"the maker goes":    {one: "", two: "b", said: true},
			"the maker changes": {one: "c", two: "b", said: true},
			"the other goes":    {one: "b", two: "", left: 1},
			"both go":           {},
			"maker tainted":     {one: "b", two: "b", tainted: true, said: true, left: 1},
			"maker replaced":    {one: "b", two: "b", replaced: true, said: true, left: 1},
		} {
			for _, ordered := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, ordered %t", f.typ, what, ordered), func(t *testing.T) {
					t.Parallel()
					w, dir := rig.NewWorld(t), t.TempDir()
					w.Change(func(world *state.World) {
						s := world.Storages["shared-nfs"]
						s.Content = append(s.Content, "iso", "snippets")
					})
					before := onSharedStorage(w)
					s := w.Session(t, rig.TokenSSH, f.of(t, dir, "b", "b", true))
					rig.Must(t, s.Converge(t.Context()))
					first := slices.DeleteFunc(onSharedStorage(w), func(name string) bool { return slices.Contains(before, name) })
					owned := [2]string{terraformtest.ShowValue(s.Attr(f.typ+".one", "owned")), terraformtest.ShowValue(s.Attr(f.typ+".two", "owned"))}
					if len(first) != 1 || owned != [2]string{"true", "false"} {
						t.Fatalf("there are %v, owned %v", first, owned)
					}
					w.Reconfigure(t, s, rig.TokenSSH, f.of(t, dir, c.one, c.two, ordered))
					s.Taint(f.typ+".one", c.tainted)
					var options []terraformtest.PlanOption
					if c.replaced {
						options = append(options, terraformtest.Replacing(f.typ+".one"))
					}
					plan, err := s.Plan(t.Context(), options...)
					rig.Must(t, err)
					if said := strings.Count(s.Diagnostics().String(), "A file of two resources goes"); said > 1 || (said == 1) != c.said {
						t.Errorf("the plan says %s", s.Diagnostics())
					}
					if said := s.Diagnostics().String(); c.said && (!strings.Contains(said, "replaces") || !strings.Contains(said, "goes: shared-nfs:"+first[0])) { // a disc changes in place
						t.Errorf("the plan says %s", said)
					}
					rig.Must(t, s.Apply(t.Context(), plan))
					if is := slices.Contains(onSharedStorage(w), first[0]); is != (c.left == 1) {
						t.Errorf("%s is there: %v", first[0], is)
					}
					rig.Must(t, s.Converge(t.Context()))
					if is := slices.Contains(onSharedStorage(w), first[0]); is != (c.one == "b" || c.two == "b") {
						t.Errorf("after the next apply %s is there: %v", first[0], is)
					}
					rig.Must(t, s.Destroy(t.Context()))
				})
			}
		}
	}
}

// TestBackingFileOfAnotherDisk: an administrator has made a disk of VM 600 with the disk of ours as its backing file, which PVE
// does not ask about where it frees ours. Without such a disk, the same goes through.
func TestBackingFileOfAnotherDisk(t *testing.T) {
	t.Parallel()
	vm := func(rest string) string {
		return rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\nremoved_disks = \"destroy\"\n" + rest)
	}
	const has = "disks = { scsi1 = { storage = \"local2\", size = \"1G\", format = \"qcow2\" } }\n"
	on := func(kind, path string) func(*state.Storage) {
		return func(s *state.Storage) { s.Type, s.Path = kind, path }
	}
	const theirs = "600/vm-600-disk-0.qcow2"
	for name, c := range map[string]struct{ before, after string }{
		"destroy of a VM":           {before: vm(has)},
		"removal of its disk":       {before: vm(has), after: vm("disks = {}\n")},
		"move of its disk":          {before: vm(has), after: vm(strings.NewReplacer("local2", "local-zfs", "qcow2", "raw").Replace(has))},
		"destroy of a proxmox_disk": {before: rig.DiskBlock(`storage = "local2"`, `size = "1G"`, `format = "qcow2"`)},
	} {
		for how, b := range map[string]struct {
			backing, format string
			on              func(*state.Storage)
		}{
			"none":               {"", "qcow2", nil},
			"another storage":    {"/var/lib/vz2/images/300/vm-300-disk-0.qcow2", "qcow2", nil},
			"relative":           {"../300/vm-300-disk-0.qcow2", "qcow2", nil},
			"absolute":           {"/mnt/local2/images/300/vm-300-disk-0.qcow2", "qcow2", nil},
			"raw of btrfs":       {"/mnt/local2/images/300/vm-300-disk-0/disk.raw", "raw", on("btrfs", "/mnt/local2")},
			"a directory with @": {"/mnt/nas@home/images/300/vm-300-disk-0.qcow2", "qcow2", on("dir", "/mnt/nas@home")},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				w, over := rig.NewWorld(t), "local2"
				if how == "another storage" {
					over = "local"
				}
				if b.on != nil {
					w.Change(func(world *state.World) { b.on(world.Storages["local2"]) })
				}
				written := strings.NewReplacer(`"qcow2"`, `"`+b.format+`"`)
				s := w.Session(t, rig.TokenNoSSH, written.Replace(c.before))
				rig.Must(t, s.Converge(t.Context()))
				w.Change(func(world *state.World) {
					world.Put(&state.Volume{Storage: over, Node: "pve1", Name: theirs, Content: "images", VMID: 600,
						Format: "qcow2", Size: 1 << 30, Backing: b.backing})
				})
				w.Reconfigure(t, s, rig.TokenNoSSH, written.Replace(c.after))
				said := s.Run(t.Context())
				volume := "local2:300/vm-300-disk-0." + b.format
				if stays := w.Sim.World().Volume("pve1", volume) != nil; stays != (b.backing != "") {
					t.Errorf("the disk is there: %t; said: %v", stays, said)
				}
				if b.backing != "" && (said == nil || !strings.Contains(said.Error(), "backing file of "+over+":")) {
					t.Errorf("said: %v", said)
				}
			})
		}
	}
}

// TestImageThatIsABackingFile: a golden image stays while a disk that was made by hand is based on it.
func TestImageThatIsABackingFile(t *testing.T) {
	t.Parallel()
	data := rig.QCOW2("one")
	url := rig.ServeFiles(t, map[string][]byte{"/debian.qcow2": data})
	for name, directory := range map[string]string{"another file": "/var/lib/vz/import/old-", "relative": "../../import/",
		"absolute": "/var/lib/vz/import/", "another storage": "/var/lib/vz/import/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			w.Change(func(world *state.World) {
				world.Storages["local"].Content = append(world.Storages["local"].Content, "images")
			})
			s := w.Session(t, rig.RootTicket, rig.DownloadedImage(url+"/debian.qcow2", rig.SHA256(data)))
			rig.Must(t, s.Converge(t.Context()))
			volume, over := rig.ImageAttr(s, "volume"), "local"
			if name == "another storage" {
				over = "local2"
			}
			w.Change(func(world *state.World) {
				world.Put(&state.Volume{Storage: over, Node: "pve1", Name: "600/vm-600-disk-0.qcow2", Content: "images",
					VMID: 600, Format: "qcow2", Size: 1 << 30, Backing: directory + path.Base(volume)})
			})
			err := s.Destroy(t.Context())
			if stays := rig.VolumeOn(w, volume) != nil; stays != (name != "another file") || stays != (err != nil) {
				t.Errorf("%s is there: %t; said: %v", volume, stays, err)
			}
			if err != nil {
				rig.MustSay(t, err, volume, "backing file of "+over+":600/vm-600-disk-0.qcow2")
			}
		})
	}
}

// TestRollBackOfABackingFile: a disk that another was made of by hand is not rolled back under it.
func TestRollBackOfABackingFile(t *testing.T) {
	t.Parallel()
	const snapshot = "resource \"proxmox_vm_snapshot\" \"s\" {\n  vmid = proxmox_vm.x.vmid\n  name = \"before\"\n}\n"
	for _, backing := range []string{"", "../300/vm-300-disk-0.qcow2"} {
		w := rig.NewWorld(t)
		s := w.Session(t, rig.TokenNoSSH, rig.VMBlock("vmid = 300\nnode = \"pve1\"\nname = \"x\"\npower_state = \"stopped\"\n"+
			"disks = { scsi1 = { storage = \"local2\", size = \"1G\", format = \"qcow2\" } }\n")+snapshot)
		rig.Must(t, s.Converge(t.Context()))
		w.Change(func(world *state.World) {
			world.Volume("pve1", "local2:300/vm-300-disk-0.qcow2").Data = "since"
			world.Put(&state.Volume{Storage: "local2", Node: "pve1", Name: "600/vm-600-disk-0.qcow2", Content: "images", VMID: 600,
				Format: "qcow2", Size: 1 << 30, Backing: backing})
		})
		_, err := rig.Invoke(t, s, "proxmox_vm_snapshot_rollback", "vmid = 300\nname = \"before\"\n", nil)
		stays := w.Sim.World().Volume("pve1", "local2:300/vm-300-disk-0.qcow2").Data == "since"
		if stays != (backing != "") || stays != (err != nil) {
			t.Errorf("%q: the content stays: %t; said: %v", backing, stays, err)
		}
		if err != nil {
			rig.MustSay(t, err, "was not rolled back", "backing file of local2:")
		}
	}
}

// TestDestroyOfAFileThatAnotherConfigurationHas: two configurations have an equal file, and the second one's VM uses it. The destroy of the
// first is refused, and the error names a way out that this configuration can go: the file stays for the other one.
func TestDestroyOfAFileThatAnotherConfigurationHas(t *testing.T) {
	t.Parallel()
	for _, f := range sharedFiles() {
		for _, kept := range []bool{false, true} {
			if kept && f.typ != "proxmox_image" {
				continue
			}
			t.Run(fmt.Sprintf("%s, kept %t", f.typ, kept), func(t *testing.T) {
				t.Parallel()
				w, dir := rig.NewWorld(t), t.TempDir()
				w.Change(func(world *state.World) {
					s := world.Storages["shared-nfs"]
					s.Content = append(s.Content, "iso", "snippets")
				})
				uses := "cdroms = { ide0 = { file = " + f.typ + ".two.volume } }\n"
				if f.typ == "proxmox_snippet" {
					uses = "cloud_init = { storage = \"shared-nfs\", custom = { vendor = proxmox_snippet.two.volume } }\n"
				}
				one := w.Session(t, rig.TokenSSH, f.of(t, dir, "b", "", false))
				rig.Must(t, one.Converge(t.Context()))
				two := w.Session(t, rig.TokenSSH, f.of(t, dir, "", "b", false)+rig.NodeVMBlock(rig.Stopped+uses))
				rig.Must(t, two.Converge(t.Context()))
				err := one.Destroy(t.Context())
				rig.MustSay(t, err, "is also used by VM 400", "create_before_destroy = true", "If it is in another one", "terraform state rm")
				if says := strings.Contains(err.Error(), "on_destroy"); says != (f.typ == "proxmox_image") {
					t.Errorf("it names on_destroy: %t; %v", says, err)
				}
				if kept {
					w.Reconfigure(t, one, rig.TokenSSH, strings.Replace(f.of(t, dir, "b", "", false), "{\n", "{\n  on_destroy = \"keep\"\n", 1))
					rig.Must(t, one.Converge(t.Context()))
				} else {
					one.Forget(f.typ + ".one")
				}
				rig.Must(t, one.Destroy(t.Context()))
				rig.Must(t, two.Converge(t.Context()))
				rig.Must(t, two.Destroy(t.Context()))
			})
		}
	}
}
