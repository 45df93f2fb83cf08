package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func example(t *testing.T) []byte {
	t.Helper()
	document, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "simulator", "world.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return document
}

func TestReadExample(t *testing.T) {
	w, err := Read(example(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Nodes) != 3 || len(w.Guests) != 4 || w.Nodes["gamma"].Memory != 32<<30 || !w.Nodes["beta"].Online {
		t.Errorf("%d nodes, %d guests, gamma %+v", len(w.Nodes), len(w.Guests), w.Nodes["gamma"])
	}
	if w.Profile != "8.4" || w.NextID.Lower != 200 || w.NextID.Upper != 1000 {
		t.Errorf("profile %q, next-id %+v", w.Profile, w.NextID)
	}
	for _, row := range []struct {
		node, volid string
		size        int64
		vmid        int
		parent      string
	}{
		{"alpha", "tank:base-9000-disk-0", 3 * gib, 9000, ""},
		{"alpha", "tank:vm-9000-cloudinit", 4 * mib, 9000, ""},
		{"alpha", "tank:base-9000-disk-0/vm-101-disk-0", 64 * gib, 101, "base-9000-disk-0"},
		{"beta", "tank:vm-210-disk-0", 32 * gib, 210, ""},
		{"gamma", "thin:vm-110-disk-0", 8 * gib, 110, ""},
		{"gamma", "local:import/debian-13.qcow2", 3 * gib, 0, ""},
	} {
		v := w.Volume(row.node, row.volid)
		if v == nil || v.Size != row.size || v.VMID != row.vmid || v.Parent != row.parent {
			t.Errorf("%s on %s is %+v, want %d bytes of %d below %q", row.volid, row.node, v, row.size, row.vmid, row.parent)
		}
	}
	if n := w.Guests[9000].Config["net0"]; !strings.HasPrefix(n, "virtio=BC:24:11:") ||
		!strings.HasSuffix(n, ",bridge=vmbr0") {
		t.Errorf("net0 is %q, want a generated MAC", n)
	}
	if g := w.Guests[101]; g.Running == nil || w.PoolOf(101) != "production" || w.HA["vm:101"].State != "started" ||
		w.Guests[102].Running == nil {
		t.Errorf("guest 101 is %+v in pool %q", g, w.PoolOf(101))
	}
	if len(w.Users) != 2 || w.Tokens["terraform@pve!example"] == nil || w.Tokens["terraform@pve!prov"] != nil ||
		!w.ACL[0].Propagate {
		t.Errorf("identities: %v %v %v", w.Users, w.Tokens, w.ACL)
	}
}

// TestReadJSON: a world is the same in JSON, and every time it is read.
func TestReadJSON(t *testing.T) {
	var tree map[string]any
	if err := yaml.Unmarshal(example(t), &tree); err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Read(example(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Read(document)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Snapshot(), b.Snapshot()) {
		t.Errorf("YAML gives\n%s\nJSON gives\n%s", a.Snapshot(), b.Snapshot())
	}
}

// TestReadDefaults: the nodes are enough; storages and identities are then the built-in ones, guests there are none.
func TestReadDefaults(t *testing.T) {
	w, err := Read([]byte(`nodes: [{name: solo}]`))
	if err != nil {
		t.Fatal(err)
	}
	d := Default([]string{"solo"})
	if len(w.Guests)+len(w.Pools)+len(w.Volumes) != 0 || len(w.Storages) != len(d.Storages) ||
		len(w.Users) != len(d.Users) {
		t.Errorf("%d guests, %d pools, %d volumes, %d storages, %d users", len(w.Guests), len(w.Pools), len(w.Volumes),
			len(w.Storages), len(w.Users))
	}
	if n := w.Nodes["solo"]; n.CPUs != 8 || n.Memory != 64*gib || n.Address == "" || len(n.Bridges) != 1 {
		t.Errorf("node %+v", n)
	}
}

// TestReadRefuses: each contradiction is named.
func TestReadRefuses(t *testing.T) {
	const nodes = "nodes: [{name: a}, {name: b}]\n"
	for _, row := range []struct{ document, text string }{
		{"", "the document is empty"},
		{"guests: []", "no nodes"},
		{"nodes: [{name: a}, {name: a}]", `node "a": not a name, or it stands twice`},
		{"nodes: [{name: a, memroy: 1G}]", "field memroy not found"},
		{"nodes: [{name: a, memory: much}]", `line 1: "much" is not a size`},
		{nodes + "guests: [{vmid: 100, node: c}]", `guest 100: node "c" does not exist`},
		{nodes + "guests: [{vmid: 99, node: a}]", "guest 99: a VMID is 100 to 999999999"},
		{nodes + "guests: [{vmid: 100, node: a}, {vmid: 100, node: b}]", "guest 100 stands twice"},
		{nodes + "guests: [{vmid: 100, node: a, type: vm}]", `type "vm" is neither qemu nor lxc`},
		{nodes + `guests: [{vmid: 100, node: a, config: {scsi0: "nowhere:vm-100-disk-0"}}]`,
			"volume nowhere:vm-100-disk-0: no such storage"},
		{nodes + `guests: [{vmid: 100, node: a, config: {scsi0: "local-zfs:disk"}}]`,
			"unable to parse zfs volume name 'disk'"},
		{nodes + `guests: [{vmid: 100, node: a, running: true, config: {template: 1}}]`, "a template runs"},
		{nodes + `volumes: [{volume: "local-zfs:base-1-a/vm-100-disk-0", node: a}]`,
			"linked clone without its base base-1-a"},
		{nodes + `volumes: [{volume: "local-zfs:vm-100-disk-0"}]`, `node "" does not exist or has no storage local-zfs`},
		{nodes + "storages: [{id: x, type: floppy}]", `type "floppy" is not one of dir, `},
		{nodes + "storages: [{id: x, type: dir, nodes: [c]}]", `storage x: node "c" does not exist`},
		{nodes + "pools: [{id: p, guests: [100]}]", "pool p: guest 100 does not exist"},
		{nodes + `ha: [{sid: "vm:100"}]`, `HA resource "vm:100": no such guest`},
		{nodes + `users: [{id: a@pve}]` + "\n" + `acl: [{path: /, subject: a@pve, role: King}]`,
			`role "King" does not exist`},
		{nodes + `tokens: [{id: "a@pve!b", secret: x}]`, "need the users that they belong to"},
	} {
		if _, err := Read([]byte(row.document)); err == nil || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s\ngives %v, want %s", row.document, err, row.text)
		}
	}
}

// FuzzRead: no document breaks the reader, and every world that it accepts is sound.
func FuzzRead(f *testing.F) {
	f.Add("nodes: [{name: a}]\nguests: [{vmid: 100, node: a, config: {scsi0: \"local-zfs:vm-100-disk-0,size=1G\"}}]")
	f.Add("{\"nodes\": [{\"name\": \"a\", \"memory\": \"9999999999T\"}]}")
	f.Add("nodes: &a [{name: b}]\nstorages: *a\n")
	f.Fuzz(func(t *testing.T, document string) {
		w, err := Read([]byte(document))
		if err != nil {
			return
		}
		if err := w.Check(); err != nil {
			t.Error(err)
		}
		w.Snapshot()
	})
}
