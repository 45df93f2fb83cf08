package storage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// crown makes VM 666 of a third party, which has the volume.
func crown(world *state.World, volume string) {
	world.Guests[666] = &state.Guest{VMID: 666, Type: "qemu", Node: "pve1", Config: map[string]string{"name": "crown",
		"memory": "512", "scsi1": volume + ",size=1G", "smbios1": "uuid=66666666-2222-3333-4444-555555555555"}}
}

// veil is a way to keep an identity from seeing VM 666, and the permission that a message names.
type veil struct {
	name, entry string
	draw        func(world *state.World, subject string)
}

func veils() []veil {
	on := func(path, role string) func(*state.World, string) {
		return func(world *state.World, subject string) {
			world.Roles["Blind"] = []string{"VM.PowerMgmt"}
			if strings.HasPrefix(path, "/pool") { // else the role on / would count on the guest by way of its pool
				world.Pools["crown"] = &state.Pool{ID: "crown", Guests: []int{666}}
			}
			world.ACL = append(world.ACL, state.ACLEntry{Path: path, Subject: subject, Role: role, Propagate: true})
		}
	}
	return []veil{
		{"NoAccess on the guest", "role NoAccess of", on("/vms/666", "NoAccess")},
		{"a role without VM.Audit on the guest", "role Blind of", on("/vms/666", "Blind")},
		{"NoAccess on its pool", "on /pool/crown hides guests", on("/pool/crown", "NoAccess")},
		{"NoAccess on all pools", "on /pool hides guests", on("/pool", "NoAccess")},
	}
}

// TestVolumesHiddenGuestKeepsItsDisk: a guest that a permission hides from the token, or may hide, may have the disk, so
// it is neither destroyed nor given to another VM, and no orphan is certain. The message names the permission.
func TestVolumesHiddenGuestKeepsItsDisk(t *testing.T) {
	t.Parallel()
	subjects := map[string]string{"token": "terraform@pve!prov", "user": "terraform@pve", "group": "@robots"}
	for kind, subject := range subjects {
		for _, v := range veils() {
			t.Run(kind+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk))
				d.World.Change(func(world *state.World) {
					world.Users["terraform@pve"].Groups = []string{"robots"}
					crown(world, "local-zfs:vm-300-disk-0")
					v.draw(world, subject)
				})
				named := kind + " " + strings.TrimPrefix(subject, "@")
				mustStay(d, v.entry, named)
			})
		}
	}
}

// TestVolumesHiddenGuestUntoldKeepsItsDisk: without Sys.Audit on /access nothing tells whether guests are hidden.
func TestVolumesHiddenGuestUntoldKeepsItsDisk(t *testing.T) {
	t.Parallel()
	d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk))
	d.World.Change(func(world *state.World) {
		crown(world, "local-zfs:vm-300-disk-0")
		for _, subject := range []string{"terraform@pve!prov", "terraform@pve"} {
			world.ACL = append(world.ACL, state.ACLEntry{Path: "/access", Subject: subject, Role: "PVEVMUser", Propagate: true},
				state.ACLEntry{Path: "/vms/666", Subject: subject, Role: "NoAccess"})
		}
	})
	mustStay(d, "Sys.Audit on /access", "Sys.Audit")
}

// mustStay wants the disk neither destroyed nor attached, and texts in the messages; a volume without a guest is unknown.
func mustStay(d *rig.DataDisk, texts ...string) {
	d.Helper()
	d.World.Change(func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-900-disk-0", Content: "images", VMID: 900,
			Format: "raw", Size: 1 << 30})
	})
	d.Configure(rig.DiskBlock(rig.SmallDisk) + rig.DiskAttached("a", 400, rig.DiskVolume))
	rig.MustRefuse(d.T, d.Session.Run(d.Context()), texts)
	if g := rig.GuestOf(d.World, 400); strings.Contains(fmt.Sprint(g.Config), "vm-300-disk-0") {
		d.Errorf("VM 400 has the disk: %v", g.Config)
	}
	d.Configure("")
	rig.MustRefuse(d.T, d.Session.Run(d.Context()), texts)
	d.Survives()
	if o := orphanOf(d.T, d.Session, "local-lvm:vm-900-disk-0"); terraformtest.Text(o, "certainty") != "unknown" {
		d.Errorf("the orphan is %s: %s", terraformtest.Text(o, "certainty"), terraformtest.Text(o, "reason"))
	}
}

// orphanOf is what proxmox_orphans tells of an object.
func orphanOf(t *testing.T, s *terraformtest.Session, id string, hcl ...string) terraformtest.Value {
	t.Helper()
	v, err := s.ReadDataSource(t.Context(), "proxmox_orphans", strings.Join(hcl, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	for it := terraformtest.At(v, "orphans").ElementIterator(); it.Next(); {
		if _, o := it.Element(); terraformtest.Text(o, "id") == id {
			return o
		}
	}
	t.Fatalf("%s is not listed: %s", id, terraformtest.ShowValue(v))
	return v
}

// TestVolumesHiddenGuestNone: permissions that hide no guest from this token do not keep its disk from being destroyed.
func TestVolumesHiddenGuestNone(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]state.ACLEntry{
		"of others": {{Path: "/vms/666", Subject: "lite@pve", Role: "NoAccess", Propagate: true},
			{Path: "/pool/web", Subject: "@interns", Role: "NoAccess", Propagate: true}},
		"with VM.Audit": {{Path: "/vms/666", Subject: "terraform@pve!prov", Role: "PVEVMUser", Propagate: true},
			{Path: "/vms/666", Subject: "terraform@pve!prov", Role: "Blind", Propagate: true}},
		"that add to it on a pool": {{Path: "/pool/web", Subject: "terraform@pve!prov", Role: "Blind", Propagate: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDataDisk(t, rig.DiskBlock(rig.SmallDisk))
			d.World.Change(func(world *state.World) {
				world.Roles["Blind"] = []string{"VM.PowerMgmt"}
				world.ACL = slices.Concat(world.ACL, entries)
			})
			d.Configure("")
			d.Must(d.Session.Run(t.Context()))
			if v := d.Volume(); v.Name != "" {
				t.Errorf("%s is there", v.Volid())
			}
		})
	}
}

// TestReplacedFileWithAHiddenGuest: Terraform destroys the VMs made of a file before the file, so the plan refuses the replacement of one
// that the apply would not remove, as a guest may be hidden. A destroy is warned of, and what stays is not asked about.
func TestReplacedFileWithAHiddenGuest(t *testing.T) {
	t.Parallel()
	image := func(lines ...string) string {
		return rig.ImageBlock("disk", append([]string{`node = "pve1"`, `storage = "local"`}, lines...)...)
	}
	web := rig.ServeFiles(t, map[string][]byte{"/a.qcow2": pvesim.StandIn(), "/b.qcow2": pvesim.StandIn()})
	a, b := fmt.Sprintf("url = %q", web+"/a.qcow2"), fmt.Sprintf("url = %q", web+"/b.qcow2")
	const keep = `on_destroy = "keep"`
	moved := func(block string) string { return strings.Replace(block, "pve1", "pve2", 1) }
	for name, c := range map[string]struct {
		before, after string
		refused       bool
	}{
		"image":                       {image(a), image(b), true},
		"image that stays":            {image(a, keep), image(b, keep), false},
		"image without a change":      {image(a), image(a, keep), false},
		"cloud-init disc":             {rig.CloudInitISOBlock("a: 1"), moved(rig.CloudInitISOBlock("a: 1")), true},
		"cloud-init disc, in place":   {rig.CloudInitISOBlock("a: 1"), rig.CloudInitISOBlock("a: 2"), false},
		"snippet":                     {rig.SnippetBlock("a: 1"), strings.Replace(rig.SnippetBlock("a: 1"), "web.yaml", "db.yaml", 1), true},
		"snippet of which all is new": {rig.SnippetBlock("a: 1"), rig.SnippetBlock("a: 2"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := rig.NewWorld(t)
			s := w.Session(t, rig.TokenSSH, c.before)
			rig.Must(t, s.Converge(t.Context()))
			w.Change(func(world *state.World) {
				crown(world, "local-zfs:vm-666-disk-0")
				world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/666", Subject: "terraform@pve!prov", Role: "NoAccess", Propagate: true})
			})
			w.Reconfigure(t, s, rig.TokenSSH, c.after)
			if _, err := s.Plan(t.Context()); c.refused {
				rig.MustSay(t, err, "whether a guest uses local:", "role NoAccess of token terraform@pve!prov on /vms/666 hides guests")
			} else if err != nil || strings.Contains(s.Diagnostics().String(), "NoAccess") {
				t.Errorf("%v: %s", err, s.Diagnostics())
			}
			w.Reconfigure(t, s, rig.TokenSSH, "")
			_, err := s.Plan(t.Context())
			rig.Must(t, err)
			if is, want := strings.Contains(s.Diagnostics().String(), "NoAccess"), !strings.Contains(c.before, keep); is != want {
				t.Errorf("the destroy is warned of: %t: %s", is, s.Diagnostics())
			}
		})
	}
}
