package permissions_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// work is a use beside VMs whose privileges are in the guide's table.
type work struct {
	row string // its first column
	as  rig.Identity
	// do does the work and undoes it; without maps each privilege that it takes to the message when that is missing.
	do      func(t *testing.T, w *rig.World, as rig.Identity) error
	without map[string]string
}

// lifeOf creates the configured objects and destroys them.
func lifeOf(config string) func(*testing.T, *rig.World, rig.Identity) error {
	return func(t *testing.T, w *rig.World, as rig.Identity) error {
		s := w.Session(t, as, config)
		if err := s.Converge(t.Context()); err != nil {
			return err
		}
		return s.Destroy(t.Context())
	}
}

// invoked is an action on VM 500 or on the leftover of another VM.
func invoked(typ, config string) func(*testing.T, *rig.World, rig.Identity) error {
	return func(t *testing.T, w *rig.World, as rig.Identity) error {
		_, err := rig.Invoke(t, w.Session(t, as, ""), typ, config, nil)
		return err
	}
}

func works() []work {
	const where, vm = "\n  node = \"pve1\"\n  storage = \"local\"\n", "vmid = 500\n"
	const noStorage, cannotTell = "see storage local, if there is one", "cannot be told: this identity does not see all guests"
	const untold = "cannot be told: this identity does not see all guests of the cluster for certain"
	lacks := func(path, privilege string) string {
		return "Permission check failed (" + path + ", " + privilege + ")"
	}
	plan := func(privilege, path string) string { return "It takes " + privilege + " on " + path + "," }
	return []work{
		{"resource `proxmox_image`", rig.TokenNoSSH, lifeOf("resource \"proxmox_image\" \"x\" {" + where +
			"  url = \"http://mirror.example/disc.qcow2\"\n}\n"), map[string]string{"Datastore.Audit": noStorage, "VM.Audit": cannotTell, "Sys.Audit": untold,
			"Datastore.AllocateTemplate": "Datastore.AllocateTemplate on /storage/local", "Sys.AccessNetwork": "Sys.AccessNetwork on /nodes/pve1",
			"Datastore.Allocate": lacks("/storage/local", "Datastore.Allocate")}},
		{"resource `proxmox_cloud_init_iso`", rig.TokenNoSSH, lifeOf("resource \"proxmox_cloud_init_iso\" \"x\" {" + where +
			"  name = \"x\"\n  user_data = \"#cloud-config\\n\"\n}\n"), map[string]string{"Datastore.Audit": noStorage, "VM.Audit": cannotTell, "Sys.Audit": untold,
			"Datastore.AllocateTemplate": "Datastore.AllocateTemplate on /storage/local",
			"Datastore.Allocate":         lacks("/storage/local", "Datastore.Allocate")}},
		{"resource `proxmox_snippet`", rig.TokenSSH, lifeOf("resource \"proxmox_snippet\" \"x\" {" + where +
			"  name = \"x.yaml\"\n  content = \"#cloud-config\\n\"\n}\n"), map[string]string{"Datastore.Audit": noStorage, "VM.Audit": cannotTell, "Sys.Audit": untold}},
		{"resource `proxmox_vm_snapshot`", rig.TokenNoSSH, lifeOf("resource \"proxmox_vm_snapshot\" \"x\" {\n  " + vm + "  name = \"mine\"\n}\n"),
			map[string]string{"VM.Snapshot": plan("VM.Snapshot", "/vms/500"), "VM.Audit": plan("VM.Audit", "/vms/500")}},
		{"resource `proxmox_ha_rule`", rig.TokenNoSSH, lifeOf("resource \"proxmox_ha_rule\" \"x\" {\n  rule = \"here\"\n  type = \"node-affinity\"\n" +
			"  resources = [\"vm:500\"]\n  nodes = { pve1 = 1 }\n}\n"),
			map[string]string{"Sys.Audit": plan("Sys.Audit", "/"), "Sys.Console": plan("Sys.Console", "/")}},
		{"action `proxmox_vm_power`", rig.TokenNoSSH, invoked("proxmox_vm_power", vm+"action = \"suspend\"\nto_disk = true\n"+
			"state_storage = \"local-zfs\""), map[string]string{"VM.PowerMgmt": plan("VM.PowerMgmt", "/vms/500"),
			"VM.Audit": plan("VM.Audit", "/vms/500"), "VM.Config.Disk": plan("VM.Config.Disk", "/vms/500"),
			"Datastore.AllocateSpace": plan("Datastore.AllocateSpace", "/storage/local-zfs")}},
		{"action `proxmox_vm_unlock`", rig.TokenSSH, invoked("proxmox_vm_unlock", vm), map[string]string{"VM.Audit": plan("VM.Audit", "/vms/500"),
			"Sys.Audit": "cannot be seen without Sys.Audit on /nodes/pve1"}},
		{"action `proxmox_vm_snapshot_rollback`", rig.TokenNoSSH, invoked("proxmox_vm_snapshot_rollback", vm+"name = \"theirs\""),
			map[string]string{"VM.Snapshot": plan("VM.Snapshot or VM.Snapshot.Rollback", "/vms/500"), "VM.Audit": plan("VM.Audit", "/vms/500")}},
		{"action `proxmox_orphan_delete` of a volume", rig.TokenNoSSH, invoked("proxmox_orphan_delete", "kind = \"volume\"\nnode = \"pve1\"\n"+
			"id = \"local:777/vm-777-disk-0.raw\""), map[string]string{"VM.Audit": plan("VM.Audit", "/vms"), "Datastore.Audit": plan("Datastore.Audit", "/storage"),
			"Datastore.Allocate": plan("Datastore.Allocate", "/storage/local"), "Sys.Audit": plan("Sys.Audit", "/access")}},
	}
}

// workWorld is a cluster with VM 500, whose objects the works change, and an identity with these privileges alone.
func workWorld(t *testing.T, row string, privileges []string) *rig.World {
	t.Helper()
	options := pvesim.Options{}
	if strings.Contains(row, "ha_rule") {
		options.Profile = "9.2"
	}
	w := rig.NewWorld(t, options.ForGuides())
	w.Change(func(world *state.World) {
		world.HA["vm:500"] = &state.HAResource{SID: "vm:500", State: "ignored"}
		world.Roles["TerraformProvider"] = privileges
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-500-disk-0", VMID: 500, Content: "images", Format: "raw", Size: 1 << 30,
			Snaps: []string{"theirs"}})
		world.Put(&state.Volume{Storage: "local", Node: "pve1", Name: "777/vm-777-disk-0.raw", VMID: 777, Content: "images", Format: "raw",
			Size: 1 << 20})
		config := map[string]string{"memory": "512", "scsi0": "local-zfs:vm-500-disk-0,size=1G", "parent": "theirs",
			"smbios1": "uuid=11111111-2222-3333-4444-000000000500"}
		world.Guests[500] = &state.Guest{VMID: 500, Type: "qemu", Node: "pve1", Config: config, Snaps: map[string]map[string]string{
			"theirs": {"snaptime": "7", "scsi0": config["scsi0"], "memory": "512"}},
			Running: &state.Running{QMPStatus: "running", StartedAt: world.Clock.Now(), Booted: maps.Clone(config), PID: 30974}}
	})
	w.ExpectPowerOffs(state.PowerSuspend, state.PowerRollback)
	w.Sim.Advance(time.Hour)
	if strings.Contains(row, "unlock") {
		w.Sim.StaleLock(500, "backup", "root@pam")
	}
	return w
}

// TestRoleOfOtherWork: each resource beside VMs, and each action, works with the privileges that the guide's table names, and with none of
// them less.
func TestRoleOfOtherWork(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../templates/guides/permissions.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range works() {
		var all []string
		for privilege := range one.without {
			all = append(all, privilege)
		}
		slices.Sort(all)
		_, rest, ok := strings.Cut(string(guide), "\n| "+one.row+" | ")
		takes, _, _ := strings.Cut(rest, " |")
		var named []string
		takes = regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(takes, "") // what does instead, or not always
		for _, name := range regexp.MustCompile("`([A-Z]\\w+\\.[A-Z][\\w.]*)`").FindAllStringSubmatch(takes, -1) {
			named = append(named, name[1])
		}
		slices.Sort(named)
		if named = slices.Compact(named); !ok || !slices.Equal(named, all) {
			t.Errorf("the guide says that %s takes %v, and it is %v", one.row, named, all)
		}
		if i := slices.Index(all, "VM.Snapshot"); i >= 0 && strings.Contains(one.row, "rollback") {
			instead := slices.Replace(slices.Clone(all), i, i+1, "VM.Snapshot.Rollback")
			if err := one.do(t, workWorld(t, one.row, instead), one.as); err != nil {
				t.Errorf("%s with %v: %v", one.row, instead, err)
			}
		}
		for _, missing := range append([]string{""}, all...) {
			t.Run(one.row+" without "+missing, func(t *testing.T) {
				has := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == missing })
				err := one.do(t, workWorld(t, one.row, has), one.as)
				want := one.without[missing]
				if said := fmt.Sprint(err); (err == nil) != (want == "") || err != nil && !strings.Contains(said, want) {
					t.Errorf("said %s, want %q", said, want)
				}
			})
		}
	}
}
