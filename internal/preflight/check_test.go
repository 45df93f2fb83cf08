package preflight

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/destroy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/diskimport"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/request"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// world is a simulated cluster and a Checker of its plans.
type world struct {
	*Checker
	t      *testing.T
	sim    *pvesim.Sim
	client *pve.Client // of the same identity
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, "")
}

// newWorldOf is a world of a release of Proxmox VE.
func newWorldOf(t *testing.T, release string) *world {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Profile: release})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	w := &world{t: t, sim: sim}
	w.as(sim.Credentials().Token)
	return w
}

// as makes the Checker that of another identity.
func (w *world) as(secret string) {
	w.t.Helper()
	here := clock.Client{Cluster: w.sim.World().Clock}
	api, err := pve.New(pve.Config{Endpoint: w.sim.Endpoint(), CACertificate: w.sim.CAPEM(),
		DialTLSContext: w.sim.DialTLSContext,
		Clock:          here, APIToken: secret})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(api.Close)
	jobs := request.New(api, here)
	guests := guest.New(jobs)
	w.client, w.Checker = api, New(jobs, guests, diskimport.New(api.Reader(), nil), destroy.New(jobs, guests, nil).Guard)
}

// change alters the cluster directly in the simulated cluster.
func (w *world) change(f func(*state.World)) {
	world := w.sim.World()
	world.Lock()
	defer world.Unlock()
	f(world)
}

// found is what a check reports: "path: summary: detail", with "perhaps " before what may work.
func found(all Findings) []string {
	var texts []string
	for _, f := range all.Refused {
		texts = append(texts, fmt.Sprintf("%s: %s: %s", f.Path, f.Summary, f.Detail))
	}
	for _, f := range all.Doubtful {
		texts = append(texts, fmt.Sprintf("perhaps %s: %s: %s", f.Path, f.Summary, f.Detail))
	}
	return texts
}

// says compares a report with its beginning and, behind "…", a word of the rest.
func says(has, want string) bool {
	begin, word, _ := strings.Cut(want, "…")
	return strings.HasPrefix(has, begin) && strings.Contains(has, word)
}

func to[T any](v T) *T { return &v }

// without takes a node out of the cluster.
func without(w *state.World, node string) {
	delete(w.Nodes, node)
	maps.DeleteFunc(w.Volumes, func(key state.VolumeKey, _ *state.Volume) bool { return key.Node == node })
}

// TestCheck: every fault is reported on the attribute that has it, with what there is instead, and nothing else is.
func TestCheck(t *testing.T) {
	golden := &guest.Clone{VMID: 9000}
	boots := func(disks map[string]vm.Disk, order ...string) (s vm.Spec) {
		s.Disks, s.BootOrder = disks, order
		return s
	}
	smaller := vm.Spec{Disks: map[string]vm.Disk{"scsi0": {Size: to(int64(1 << 30))}}}
	for name, c := range map[string]struct {
		happens func(*state.World)
		request Request
		want    []string // as says has it
	}{
		"nothing to say": {request: Request{Creating: true, Node: "pve1", VMID: 100,
			Storages: map[string]string{"disks.scsi0.storage": "local-zfs"},
			Bridges:  map[string]string{"networks.net0.bridge": "vmbr0"}, Pool: "web",
			Needs: []Need{{Path: "cdroms.ide2.file", Kind: Medium, Value: "local:iso/debian.iso"}}}},
		"unknown node": {request: Request{Node: "pve9", Pool: "none"},
			want: []string{`node: Unknown node "pve9": …pve1, pve2`}},
		"misspelt node": {request: Request{Creating: true, Node: "pev1"}, want: []string{`node: Unknown node "pev1": Did you mean "pve1"?`}},
		"misspelt storage": {request: Request{Node: "pve1", Storages: map[string]string{"disks.scsi0.storage": "local-zsf"}},
			want: []string{`disks.scsi0.storage: …Did you mean "local-zfs"?`}},
		"misspelt pool":     {request: Request{Node: "pve1", Pool: "wbe"}, want: []string{`pool: …Did you mean "web"?`}},
		"no node given":     {request: Request{Creating: true}, want: []string{"node: No node given: …2 nodes"}},
		"one node suffices": {happens: func(w *state.World) { without(w, "pve2") }, request: Request{Creating: true}},
		"node not online": {happens: func(w *state.World) { w.Nodes["pve2"].Online = false },
			request: Request{Creating: true, Node: "pve2"},
			want:    []string{"node: Node pve2 is not online: …-refresh=false"}},
		"none of the nodes": {happens: func(w *state.World) { w.Nodes["pve2"].Online = false },
			request: Request{Creating: true, Nodes: []string{"pve2", "pve9"}},
			want:    []string{"nodes: None of the nodes is online: …Node pve2 is not online. Unknown node"}},
		"the first that is": {happens: func(w *state.World) { w.Nodes["pve1"].Online = false },
			request: Request{Nodes: []string{"pve1", "pve2"}}},
		"taken by a VM": {request: Request{Creating: true, Node: "pve1", VMID: 8000},
			want: []string{"vmid: VMID 8000 is taken: …VM 8000 (existing) on node pve1"}},
		"taken by a container": {request: Request{Creating: true, Node: "pve1", VMID: 8100},
			want: []string{"vmid: VMID 8100 is taken: …Choose another vmid, or leave it out to get a free one"}},
		"taken by a VM of this name": {request: Request{Creating: true, Node: "pve1", VMID: 8000, Name: "existing"},
			want: []string{"perhaps vmid: VMID 8000 is taken by a VM of the same name: …terraform import ADDRESS 8000"}},
		"taken by a namesake of the VM to replace": {request: Request{Creating: true, OtherID: true, Node: "pve1", VMID: 8000, Name: "existing"}, want: []string{"vmid: VMID 8000 is taken: …VM 8000"}},
		"taken by the VM to replace, in the apply": {request: Request{Creating: true, Acting: true, Node: "pve1", VMID: 8000, Name: "existing"}},
		"taken, but not created":                   {request: Request{Node: "pve1", VMID: 8000}},
		"a storage that is not for disks": {request: Request{Node: "pve1",
			Storages: map[string]string{"disks.scsi0.storage": "local2",
				"restore.storage": "local2", "vmstatestorage": "local2", "efi_disk.storage": "local-zfs"}},
			happens: func(w *state.World) { w.Storages["local2"].Content = []string{"iso"} },
			want: []string{"disks.scsi0.storage: Storage local2 is not for disks: …content type images",
				"restore.storage: Storage local2 is not"}},
		"unknown storages": {request: Request{Node: "pve1",
			Storages: map[string]string{"disks.scsi1.storage": "b", "disks.scsi0.storage": "a"}},
			want: []string{`disks.scsi0.storage: Unknown storage "a": …local-zfs`,
				`disks.scsi1.storage: Unknown storage "b"`}},
		"storage of another node": {happens: func(w *state.World) { w.Storages["local2"].Nodes = []string{"pve2"} },
			request: Request{Node: "pve1", Storages: map[string]string{"disks.scsi0.storage": "local2"}},
			want:    []string{"disks.scsi0.storage: Storage local2 is not on node pve1: It is available on pve2"}},
		"image on no storage": {request: Request{Node: "pve1",
			Needs: []Need{{Path: "cdroms.ide2.file", Kind: Medium, Value: "none:iso/a.iso"}}},
			want: []string{`cdroms.ide2.file: Unknown storage "none"`}},
		"unknown pool": {request: Request{Node: "pve1", Pool: "db"}, want: []string{`pool: Unknown pool "db": …web`}},
		"unknown bridges": {request: Request{Node: "pve1",
			Bridges: map[string]string{"networks.net1.bridge": "vmbr8", "networks.net0.bridge": "vmbr9"}},
			want: []string{`perhaps networks.net0.bridge: Unknown bridge "vmbr9": …vmbr0, vmbr1`,
				`perhaps networks.net1.bridge: Unknown bridge "vmbr8"…kernel only`}},
		"volumes under the id": {happens: func(w *state.World) {
			w.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-100-disk-3", VMID: 100, Content: "images",
				Format: "raw", Size: 1 << 30})
		}, request: Request{Creating: true, Node: "pve1", VMID: 100,
			Storages: map[string]string{"disks.scsi0.storage": "local-zfs"}},
			want: []string{"vmid: Volumes of another VM 100 are still there: …vm-100-disk-3"}},
		"nothing to clone": {request: Request{Creating: true, Node: "pve1", Clone: &guest.Clone{Name: "gold"}},
			want: []string{"clone.name: No VM to clone: …9000 ("}},
		"misspelt source": {request: Request{Creating: true, Node: "pve1", Clone: &guest.Clone{Name: "temprate"}},
			want: []string{`clone.name: No VM to clone: …Did you mean "template"?`}},
		"misspelt tag": {happens: func(w *state.World) { w.Guests[9000].Config["tags"] = "golden;linux" },
			request: Request{Creating: true, Node: "pve1", Clone: &guest.Clone{Tags: []string{"linux", "goldne"}}},
			want:    []string{`clone.tags: No VM to clone: …Did you mean "golden"?`}},
		"linked, and elsewhere": {request: Request{Creating: true, Node: "pve1",
			Clone: &guest.Clone{VMID: 9000, Storage: "local-lvm"}},
			want: []string{"clone.storage: A linked clone stays where its template is: …clone.full = true"}},
		"linked, on another node": {request: Request{Creating: true, Node: "pve2", Clone: golden},
			want: []string{"clone.full: VM 9000 cannot be cloned to node pve2"}},
		"a disk that shrinks": {request: Request{Creating: true, Node: "pve1", Clone: golden, Planned: smaller, Whole: true},
			want: []string{"disks.scsi0.size: VM 9000 cannot be cloned like this"}},
		"a drive in the place of a disk": {request: Request{Creating: true, Node: "pve1", Clone: golden, Whole: true,
			Planned: vm.Spec{CDROMs: map[string]vm.CDROM{"scsi0": {File: "none"}}}},
			want: []string{"cdroms.scsi0: VM 9000 cannot be cloned like this: …is in scsi0"}},
		"a device to boot from that the copy lacks": {request: Request{Creating: true, Node: "pve1", Clone: golden, Whole: true,
			Planned: boots(nil, "scsi5", "scsi0")},
			want: []string{"boot_order: VM 9000 cannot be cloned like this: There is no device scsi5: the copy has"}},
		"a device to boot from that is new": {request: Request{Creating: true, Node: "pve1", Clone: golden, Whole: true,
			Planned: boots(map[string]vm.Disk{"scsi5": {Storage: "local-zfs", Size: to(int64(1 << 30))}}, "scsi5", "scsi0")}},
		"a clone": {request: Request{Creating: true, Clone: golden, Whole: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.happens != nil {
				w.change(c.happens)
			}
			before := w.sim.Snapshot()
			has := found(w.Check(t.Context(), c.request))
			if !slices.EqualFunc(has, c.want, says) {
				t.Errorf("found %q, want %q", has, c.want)
			}
			if !bytes.Equal(before, w.sim.Snapshot()) {
				t.Error("a plan has changed something")
			}
		})
	}
}

// moved is a VM on pve1, with a disk and a network device, and the request to migrate it to pve2.
func (w *world) moved(alter func(config map[string]string, m *Request)) Request {
	config := map[string]string{"name": "web", "smbios1": "uuid=11111111-2222-3333-4444-000000000400",
		"scsi0": "shared-nfs:400/vm-400-disk-0.raw,size=1G",
		"net0":  "virtio=BC:24:11:00:00:01,bridge=vmbr0"}
	r := Request{Node: "pve2", ID: 400, Moving: &Moving{From: "pve1"}}
	alter(config, &r)
	w.change(func(all *state.World) {
		for _, value := range config {
			id, _, _ := strings.Cut(value, ",")
			if storage, name, ok := strings.Cut(id, ":"); ok && strings.Contains(name, "disk-0") {
				v := &state.Volume{Storage: storage, Node: "pve1", Name: name, VMID: 400, Content: "images", Format: "raw",
					Size: 1 << 30}
				if all.Storages[storage].Shared {
					v.Node = ""
				}
				all.Put(v)
			}
		}
		g := &state.Guest{VMID: 400, Type: "qemu", Node: "pve1", Config: config}
		if r.Running {
			g.Running = &state.Running{QMPStatus: "running", StartedAt: all.Clock.Now(), Booted: maps.Clone(config), PID: 4000}
		}
		all.Guests[400] = g
	})
	r.Prior, r.Planned = vm.Decode(config), vm.Decode(config)
	return r
}

// TestCheckMigration: what stands in the way of a migration is reported where it can be changed, unless the same plan
// changes it.
func TestCheckMigration(t *testing.T) {
	onLocal2 := func(config map[string]string, _ *Request) { config["scsi0"] = "local2:400/vm-400-disk-0.raw,size=1G" }
	medium := func(config map[string]string, _ *Request) { config["ide2"] = "local:iso/debian.iso,media=cdrom" }
	for name, c := range map[string]struct {
		alter func(config map[string]string, m *Request)
		then  func(w *world, r *Request)
		want  []string
	}{
		"nothing in the way": {},
		"a storage that the target lacks": {alter: onLocal2,
			then: func(w *world, _ *Request) {
				w.change(func(all *state.World) { all.Storages["local2"].Nodes = []string{"pve1"} })
			},
			want: []string{"disks.scsi0.storage: VM 400 cannot be migrated to node pve2: …storage local2, which node pve2 " +
				"does not have"}},
		"one that the plan leaves": {alter: onLocal2,
			then: func(w *world, r *Request) {
				w.change(func(all *state.World) { all.Storages["local2"].Nodes = []string{"pve1"} })
				disk := r.Planned.Disks["scsi0"]
				disk.Storage = "shared-nfs"
				r.Planned.Disks["scsi0"] = disk
			}},
		"a medium of the node": {alter: medium,
			want: []string{`cdroms.ide2: VM 400 cannot be migrated to node pve2: …Eject it (file = "none")`}},
		"a medium that the plan takes out": {alter: medium, then: func(_ *world, r *Request) { r.Planned.CDROMs = nil },
			want: []string{"cdroms.ide2: VM 400 cannot be migrated to node pve2: …The plan takes it out of cdroms.ide2, " +
				"but only after the migration. Apply that change first, with the VM on node pve1"}},
		"a volume with the id of another VM": {then: func(w *world, _ *Request) {
			w.change(func(all *state.World) { all.Guests[400].Config["scsi3"] = "local-lvm:vm-8000-disk-0,size=4G" })
		}, want: []string{"scsi3: VM 400 cannot be migrated to node pve2: …carries the id of VM 8000, and PVE migrates " +
			"only a VM's own"}},
		"a device of the node": {alter: func(config map[string]string, _ *Request) { config["hostpci0"] = "0000:01:00" },
			want: []string{"hostpci0: VM 400 cannot be migrated to node pve2: …is a device of node pve1"}},
		"a disk of the node by its path": {alter: func(config map[string]string, _ *Request) {
			config["scsi3"] = "/dev/disk/by-id/ata-x,size=4G"
		}, want: []string{"disks.scsi3: VM 400 cannot be migrated to node pve2: …is a device or file of node pve1"}},
		"a disk of all nodes by its path": {alter: func(config map[string]string, _ *Request) {
			config["scsi3"] = "/dev/disk/by-id/ata-x,shared=1,size=4G"
		}},
		"a bridge that goes": {alter: func(_ map[string]string, m *Request) { m.Running = true },
			then: func(w *world, r *Request) {
				w.change(func(all *state.World) { all.Nodes["pve2"].Bridges = []string{"vmbr1"} })
				nic := r.Planned.Networks["net0"]
				nic.Bridge = to("vmbr1")
				r.Planned.Networks["net0"] = nic
			}, want: []string{
				"networks.net0.bridge: VM 400 cannot be migrated to node pve2: …runs with net0 on bridge vmbr0"}},
		"a bridge that goes, of a guest that is off": {then: func(w *world, r *Request) {
			w.change(func(all *state.World) { all.Nodes["pve2"].Bridges = []string{"vmbr1"} })
			nic := r.Planned.Networks["net0"]
			nic.Bridge = to("vmbr1")
			r.Planned.Networks["net0"] = nic
		}},
		"no move at all": {alter: func(config map[string]string, _ *Request) { config["hostpci0"] = "0000:01:00" },
			then: func(_ *world, r *Request) { r.Node = "pve1" }},
		"a server that does not say": {alter: func(config map[string]string,
			_ *Request) {
			config["hostpci0"] = "0000:01:00"
		},
			then: func(w *world, _ *Request) {
				w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/qemu/{vmid}/migrate"},
					Phase: fault.Before, Status: 403, Reason: "no"}})
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if c.alter == nil {
				c.alter = func(map[string]string, *Request) {}
			}
			r := w.moved(c.alter)
			if c.then != nil {
				c.then(w, &r)
			}
			has := found(w.Check(t.Context(), r))
			if !slices.EqualFunc(has, c.want, says) {
				t.Errorf("found %q, want %q", has, c.want)
			}
		})
	}
}

// TestCheckCosts: one list of the identity's permissions, one listing, one list of bridges of each node, one of volumes
// and one configuration of each template serve the plans of many VMs.
func TestCheckCosts(t *testing.T) {
	w := newWorld(t)
	w.sim.ResetOps()
	for n := range 20 {
		r := Request{Creating: true, Node: "pve1", VMID: 100 + n, Clone: &guest.Clone{VMID: 9000}, Whole: true,
			Storages: map[string]string{"disks.scsi0.storage": "local-zfs"},
			Bridges:  map[string]string{"networks.net0.bridge": "vmbr0"}}
		if all := w.Check(t.Context(), r); len(all.Refused) > 0 {
			t.Errorf("%q", found(all))
		}
	}
	var asked []string
	for _, op := range w.sim.Ops() {
		if op.Method != http.MethodGet {
			t.Errorf("%s %s", op.Method, op.Path)
		}
		asked = append(asked, op.Path)
	}
	slices.Sort(asked)
	want := []string{"/access/permissions", "/cluster/resources", "/nodes/{node}/network",
		"/nodes/{node}/qemu/{vmid}/config",
		"/nodes/{node}/storage/{storage}/content"} // what lies under the configured ids
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestCheckIsSilentOnWhatItMayNotSee: who sees no storages or bridges is told nothing of them; a cluster that
// cannot be listed at all is said to be so.
func TestCheckIsSilentOnWhatItMayNotSee(t *testing.T) {
	w := newWorld(t)
	w.change(func(all *state.World) {
		all.Roles["TerraformProvider"] = []string{"VM.Audit", "VM.Allocate", "Sys.Audit", "Pool.Allocate"}
	})
	r := Request{Node: "pve1", Storages: map[string]string{"disks.scsi0.storage": "none"}}
	if all := found(w.Check(t.Context(), r)); len(all) > 0 {
		t.Errorf("%q", all)
	}
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/nodes/{node}/network"}, Phase: fault.Before, Times: -1,
		Status: 403, Reason: "no"}})
	if all := found(w.Check(t.Context(), Request{Node: "pve1",
		Bridges: map[string]string{"networks.net0.bridge": "none"}})); len(all) > 0 {
		t.Errorf("%q", all)
	}
	w = newWorld(t)
	w.sim.SetFaults([]fault.Rule{{Match: fault.Match{Path: "/cluster/resources"}, Phase: fault.Before, Times: -1,
		Reason: "no quorum"}})
	all := w.Check(t.Context(), Request{Creating: true, Node: "pve1"})
	if len(all.Refused) != 1 || all.Refused[0].Path != "" || all.Refused[0].Summary != "Cannot look at the cluster" ||
		!strings.Contains(all.Refused[0].Error(), "no quorum") {
		t.Errorf("%q", found(all))
	}
	if w.Place(t.Context(), []string{"pve1"}) != "" {
		t.Error("a place in a cluster that cannot be listed")
	}
}

// TestPlace is the first node that is online, or none.
func TestPlace(t *testing.T) {
	w := newWorld(t)
	w.change(func(all *state.World) { all.Nodes["pve1"].Online = false })
	for want, nodes := range map[string][]string{"pve2": {"pve1", "pve2"}, "": {"pve1", "pve9"}} {
		if got := w.Place(t.Context(), nodes); got != want {
			t.Errorf("of %v: %q", nodes, got)
		}
	}
}

// TestOneGrant: of many plans at the same time that lack a privilege, one has the commands that grant it.
func TestOneGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var plans sync.WaitGroup
	var said []string
	for n := range 8 {
		plans.Go(func() {
			found := w.Check(t.Context(), Request{Creating: true, Node: "pve1", ID: 500 + n, VMID: 500 + n, Who: fmt.Sprintf("VM %d", 500+n),
				Planned: vm.Spec{Startup: vm.Startup{Order: new(int64(7))}}})
			mu.Lock()
			defer mu.Unlock()
			for _, refused := range found.Refused {
				said = append(said, refused.Detail)
			}
		})
	}
	plans.Wait()
	text := strings.Join(said, "\n")
	if with, named := strings.Count(text, "pveum role add"), strings.Count(text, "The commands of the error"); with != 1 || named != 7 {
		t.Errorf("%d plans have the commands, %d name the one that has:\n%s", with, named, text)
	}
}
