package acctest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/host"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provision"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// sweepIdentity is who creates, and whether it has SSH to the node.
type sweepIdentity struct {
	name   string
	auth   func(*pve.Config, pvesim.Credentials)
	ssh    bool
	ticket bool
}

func sweepIdentities() []sweepIdentity {
	token := func(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.Token }
	return []sweepIdentity{
		{name: "root ticket", ticket: true, auth: func(c *pve.Config, cred pvesim.Credentials) {
			c.Username, c.Password = cred.RootUsername, cred.RootPassword
		}},
		{name: "token with SSH", auth: token, ssh: true},
		{name: "token without SSH", auth: token},
		{name: "token without Datastore.Allocate", auth: func(c *pve.Config, cred pvesim.Credentials) { c.APIToken = cred.TokenNoAllocate }},
	}
}

// bench is a simulated cluster with strangers in it, and a service for one identity on it.
type bench struct {
	t      *testing.T
	sim    *pvesim.Sim
	base   []byte // the world every case begins with
	svc    *provision.Service
	root   *host.Shell // what an operator has: root on every node
	client *pve.Client
	config pve.Config
	ssh    provision.Shell    // what the identity has beside its API
	also   func(*state.World) // what every case begins with besides, that a snapshot does not keep
}

// newBench makes a cluster in which orphan volumes of other ids and of the ids that the cases use stand about.
func newBench(t *testing.T, who sweepIdentity) *bench {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{Nodes: []string{"pve1", "pve2"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, sim: sim}
	t.Cleanup(sim.Close)
	b.root = b.shell()
	b.populate()
	b.config = pve.Config{Endpoint: sim.Endpoint(), CACertificate: sim.CAPEM(), DialContext: sim.DialContext, Clock: clock.Client{Cluster: sim.World().Clock}}
	who.auth(&b.config, sim.Credentials())
	if who.ssh {
		b.ssh = b.shell()
	}
	b.connect()
	t.Cleanup(func() { b.client.Close() })
	return b
}

// connect makes the client and the service of a new process, so that every run makes the same requests: it asks anew what a
// process asks once, and has logged in.
func (b *bench) connect() {
	b.t.Helper()
	if b.client != nil {
		b.client.Close()
	}
	var err error
	if b.client, err = pve.New(b.config); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.client.Resources(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.svc = provision.New(b.client, b.ssh, b.config.Clock)
}

func (b *bench) shell() *host.Shell { return operator(b.t, b.sim) }

// operator is root on every node.
func operator(t *testing.T, sim *pvesim.Sim) *host.Shell {
	t.Helper()
	_, port, _ := strings.Cut(sim.SSHAddress(), ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := host.New(host.Config{Username: "root", PrivateKeyPEM: sim.SSHPrivateKeyPEM(), KnownHosts: sim.SSHKnownHosts(),
		Nodes: map[string]host.Address{"pve1": {Host: "pve1", Port: number}, "pve2": {Host: "pve2", Port: number}}, Dial: sim.SSHDial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Close() })
	return shell
}

// populate adds what belongs to nobody we know: orphans of id 100, which an automatic create therefore must pass over, and
// of the ids 101 and 200 on the other node.
func (b *bench) populate() {
	w := b.sim.World()
	w.Lock()
	for _, v := range []state.Volume{
		{Storage: "local-zfs", Node: "pve1", Name: "vm-100-disk-3", VMID: 100},
		{Storage: "local-zfs", Node: "pve1", Name: "vm-777-disk-0", VMID: 777},
		{Storage: "local-lvm", Node: "pve1", Name: "vm-778-disk-0", VMID: 778},
		{Storage: "local-zfs", Node: "pve2", Name: "vm-101-disk-0", VMID: 101},
		{Storage: "local-lvm", Node: "pve2", Name: "vm-101-cloudinit", VMID: 101},
		{Storage: "local-zfs", Node: "pve2", Name: "vm-200-disk-0", VMID: 200},
	} {
		v.Content, v.Format, v.Size, v.Data = "images", "raw", 1<<30, "a stranger's data in "+v.Name
		w.Put(&v)
	}
	w.AddBackup("pve1")
	w.Firewall[8000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	w.Firewall[9000] = &state.FirewallFile{Options: map[string]string{"enable": "1"}}
	w.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored", Options: map[string]string{"comment": "a stranger's"}}
	w.Unlock()
	b.base = b.sim.Snapshot()
}

// reset puts the world back and forgets faults and operations.
func (b *bench) reset() {
	b.sim.SetFaults(nil)
	if err := b.sim.Load(b.base); err != nil {
		b.t.Fatal(err)
	}
	if b.also != nil {
		w := b.sim.World()
		w.Lock()
		b.also(w)
		w.Unlock()
	}
	b.connect()
	b.sim.ResetOps()
}

type haEntry struct {
	SID     string            `json:"sid"`
	State   string            `json:"state"`
	Options map[string]string `json:"options"`
}

type fireFile struct {
	VMID    int                 `json:"vmid"`
	Options map[string]string   `json:"options"`
	Rules   []map[string]string `json:"rules"`
}

// lacksBeside says what is wrong with a VM's firewall and its HA entry; "" if nothing is.
func (w world) lacksBeside(sc scenario) string {
	entry := slices.IndexFunc(w.HA, func(h haEntry) bool { return h.SID == "vm:"+strconv.Itoa(sc.vmid) })
	if want := sc.request.HA; (want != nil) != (entry >= 0) || want != nil && w.HA[entry].State != *want.State {
		return fmt.Sprintf("HA is %+v", w.HA)
	}
	if want := sc.request.Firewall; want != nil {
		file := slices.IndexFunc(w.Firewall, func(f fireFile) bool { return f.VMID == sc.vmid })
		if file < 0 || w.Firewall[file].Options["enable"] != "1" || len(w.Firewall[file].Rules) != len(want.Rules) || w.Firewall[file].Rules[0]["macro"] != "SSH" {
			return fmt.Sprintf("the firewall is %+v", w.Firewall)
		}
	}
	return ""
}

// world is a snapshot as a comparable value.
type world struct {
	Guests   []state.Guest  `json:"guests"`
	Volumes  []state.Volume `json:"volumes"`
	Pools    []state.Pool   `json:"pools"`
	HA       []haEntry      `json:"ha"`
	Firewall []fireFile     `json:"firewall"`
	ACL      []any          `json:"acl"`
	Tasks    []any          `json:"tasks"`
}

func (b *bench) world(snapshot []byte) world {
	var w world
	if err := json.Unmarshal(snapshot, &w); err != nil {
		b.t.Fatal(err)
	}
	return w
}

// without is the world less everything that carries an id on a node.
func (w world) without(vmid int, node string) world {
	w.Guests = slices.DeleteFunc(slices.Clone(w.Guests), func(g state.Guest) bool { return g.VMID == vmid })
	w.Volumes = slices.DeleteFunc(slices.Clone(w.Volumes), func(v state.Volume) bool { return v.VMID == vmid && v.Node == node })
	w.Firewall = slices.DeleteFunc(slices.Clone(w.Firewall), func(f fireFile) bool { return f.VMID == vmid })
	w.HA = slices.DeleteFunc(slices.Clone(w.HA), func(h haEntry) bool { return h.SID == "vm:"+strconv.Itoa(vmid) })
	pools := slices.Clone(w.Pools)
	for i := range pools {
		pools[i].Guests = slices.DeleteFunc(slices.Clone(pools[i].Guests), func(id int) bool { return id == vmid })
	}
	w.Pools = pools
	return w
}

func (w world) guest(vmid int) (state.Guest, bool) {
	for _, g := range w.Guests {
		if g.VMID == vmid {
			return g, true
		}
	}
	return state.Guest{}, false
}

// sameWorld is "" when nothing differs.
func sameWorld(before, after world) string { return cmp.Diff(before, after) }

// operations are the requests and commands since the reset, but for logins and task polls, which every run may need a
// different number of.
func (b *bench) operations() []pvesim.Op {
	return slices.DeleteFunc(slices.Clone(b.sim.Ops()), func(op pvesim.Op) bool {
		return op.Path == "/access/ticket" || strings.HasPrefix(op.Path, "/nodes/{node}/tasks/{upid}")
	})
}

func opName(op pvesim.Op) string { return fmt.Sprintf("%s %s", op.Method, op.Path) }
