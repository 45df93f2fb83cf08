package datasource

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// program is one that makes VMs over the API and knows nothing of this provider.
type program struct {
	t    *testing.T
	sim  *pvesim.Sim
	http *http.Client
}

func newProgram(t *testing.T, sim *pvesim.Sim) *program {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(sim.CAPEM())) {
		t.Fatal("no certificate")
	}
	transport := &http.Transport{DialContext: sim.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool,
		MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &program{t: t, sim: sim, http: &http.Client{Transport: transport}}
}

// call sends a request and gives the status and the data.
func (p *program) call(method, path string, params url.Values) (int, json.RawMessage) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.sim.Endpoint()+"/api2/json"+path,
		strings.NewReader(params.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+p.sim.Credentials().RootToken)
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.http.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body struct {
		Data json.RawMessage `json:"data"`
	}
	_ = json.NewDecoder(resp.Body).Decode(&body) // an error has none
	return resp.StatusCode, body.Data
}

// make makes a VM under the next free id, and waits until it is there.
func (p *program) make(options url.Values) (vmid string) {
	p.t.Helper()
	_, data := p.call(http.MethodGet, "/cluster/nextid", nil)
	vmid = strings.Trim(string(data), `"`)
	options.Set("vmid", vmid)
	if status, data := p.call(http.MethodPost, "/nodes/pve1/qemu", options); status != http.StatusOK {
		p.t.Fatalf("create %s: %d %s", vmid, status, data)
	}
	p.sim.Advance(5 * time.Second)
	return vmid
}

// orphans reads the data source, which has looked at everything.
func orphans(t *testing.T, sim *pvesim.Sim) []orphanEntry {
	t.Helper()
	state, diags := read(t, NewOrphans, session(t, sim, sim.Credentials().Token), nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	var m orphansModel
	if diags := state.Get(t.Context(), &m); diags.HasError() {
		t.Fatal(diags)
	}
	if len(m.Unchecked) > 0 {
		t.Errorf("unchecked are %q", m.Unchecked)
	}
	return m.Orphans
}

// operator is root on the first node.
func operator(t *testing.T, sim *pvesim.Sim) *ssh.Shell {
	t.Helper()
	_, port, _ := strings.Cut(sim.SSHAddress(), ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := ssh.New(ssh.Config{Username: "root", PrivateKeyPEM: sim.SSHPrivateKeyPEM(),
		KnownHosts: sim.SSHKnownHosts(),
		Nodes:      map[string]ssh.Address{"pve1": {Host: "pve1", Port: number}}, Dial: sim.SSHDial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shell.Close() })
	return shell
}

// whole is the cluster less its tasks and what lies in time.
func whole(sim *pvesim.Sim) string { return string(sim.Snapshot()) }

// TestOrphansOfAControllerThatRetried: a controller made a VM, asked for its disk by an endpoint that PVE has not
// (importdisk, 501), recorded nothing, and started again, 66 times. All of them are found, and nothing of a third
// party; the commands remove them.
func TestOrphansOfAControllerThatRetried(t *testing.T) {
	t.Parallel()
	sim := world(t)
	p := newProgram(t, sim)
	lookalikes(t, sim, p)
	sim.Advance(time.Hour)
	before := whole(sim)
	if found := orphans(t, sim); len(found) > 0 {
		t.Fatalf("there are none yet: %v", found)
	}
	var made []string
	for range 66 {
		vmid := p.make(url.Values{"name": {"web"}, "cores": {"2"}, "memory": {"2048"}, "scsihw": {"virtio-scsi-pci"},
			"net0": {"virtio,bridge=vmbr0"}})
		if status, _ := p.call(http.MethodPost, "/nodes/pve1/qemu/"+vmid+"/importdisk",
			url.Values{"source": {"/tmp/image.qcow2"}}); status != http.StatusNotImplemented {
			t.Fatalf("importdisk answers %d", status)
		}
		made = append(made, vmid)
	}
	for _, o := range orphans(t, sim)[len(made)-1:] {
		if o.Certainty != "unknown" || o.Command != nil {
			t.Errorf("a VM that was made a moment ago: %+v", o)
		}
	}
	sim.Advance(time.Hour)
	found := orphans(t, sim)
	var ids []string
	for _, o := range found {
		ids = append(ids, o.ID)
		if o.Kind != "half_made" || o.Certainty != "likely" || !strings.HasSuffix(value(o.Command), " && qm destroy "+o.ID+" --purge") ||
			value(o.Node) != "pve1" {
			t.Errorf("%+v", o)
		}
	}
	slices.Sort(made)
	slices.Sort(ids)
	if !slices.Equal(ids, made) {
		t.Fatalf("found %v, made were %v", ids, made)
	}
	runAll(t, sim, found)
	if found := orphans(t, sim); len(found) > 0 {
		t.Errorf("still there: %v", found)
	}
	if after := whole(sim); after != before {
		t.Errorf("the cluster was\n%s\nand is\n%s", before, after)
	}
}

// lookalikes fills the cluster with objects that look like leftovers and are none.
func lookalikes(t *testing.T, sim *pvesim.Sim, p *program) {
	t.Helper()
	p.make(url.Values{"name": {"to-be-installed"}, "net0": {"virtio,bridge=vmbr0"}}) // alone of its name
	p.make(url.Values{"name": {"web"}, "scsi0": {"local-zfs:1"}, "net0": {"virtio,bridge=vmbr0"}})
	diskless := p.make(url.Values{"name": {"web"}, "net0": {"virtio,bridge=vmbr0"}}) // runs from the network
	if status, _ := p.call(http.MethodPost, "/nodes/pve1/qemu/"+diskless+"/status/start", nil); status != http.StatusOK {
		t.Fatalf("start answers %d", status)
	}
	user := p.make(url.Values{"name": {"borrower"}, "scsi0": {"local-zfs:1"}})
	change(sim, func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-777-disk-0", VMID: 777, Content: "images",
			Format: "raw", Size: 1 << 30})
		for _, g := range world.Guests {
			if fmt.Sprint(g.VMID) == user {
				g.Config["scsi1"] = "local-zfs:vm-777-disk-0,size=1G" // the disk of a VM that is gone
			}
		}
		world.Pools["web"].Guests = []int{8000}
		world.ACL = append(world.ACL, state.ACLEntry{Path: "/vms/8000", Subject: "auditor@pve", Role: "PVEAuditor"})
		world.HA["vm:8000"] = &state.HAResource{SID: "vm:8000", State: "ignored"}
	})
	sim.HoldLock(8000, "backup", 24*time.Hour, "root@pam")
}

// runAll runs the command of each orphan on its node, as root.
func runAll(t *testing.T, sim *pvesim.Sim, found []orphanEntry) {
	t.Helper()
	root := operator(t, sim)
	for _, o := range found {
		if o.Command == nil {
			t.Errorf("there is no command for %+v", o)
			continue
		}
		for _, command := range strings.Split(*o.Command, " && ") {
			if words := strings.Fields(command); words[0] == "grep" { // of the simulator reads no files
				uuid, path := "", ""
				change(sim, func(world *state.World) {
					vmid, _ := strconv.Atoi(o.ID)
					uuid, path = vm.UUID(world.Guests[vmid].Config), fmt.Sprintf("/etc/pve/nodes/%s/qemu-server/%s.conf", *o.Node, o.ID)
				})
				if words[3] != uuid || words[4] != path {
					t.Errorf("%s: the uuid is %s in %s", command, uuid, path)
				}
				continue
			}
			if out, err := root.Run(t.Context(), *o.Node, strings.Fields(command)...); err != nil {
				t.Errorf("%s: %v %s", command, err, out)
			}
		}
	}
}

// TestOrphansAreRemovedByTheirCommands: what killed workers leave and what outlived its configuration is found with the
// commands that remove it, and after them nothing is there.
func TestOrphansAreRemovedByTheirCommands(t *testing.T) {
	t.Parallel()
	sim := world(t)
	p := newProgram(t, sim)
	before := whole(sim)
	for _, killed := range []struct{ method, path, template, options string }{
		{"POST", "/nodes/pve1/qemu", "/nodes/{node}/qemu", "vmid=301&scsi0=local-zfs:1"},
		{"POST", "/nodes/pve1/qemu/9000/clone", "/nodes/{node}/qemu/{vmid}/clone", "newid=302&full=1"},
	} {
		sim.SetFaults([]fault.Rule{{Match: fault.Match{Method: killed.method, Path: killed.template}, Phase: fault.KillTask}})
		options, err := url.ParseQuery(killed.options)
		if err != nil {
			t.Fatal(err)
		}
		if status, _ := p.call(killed.method, killed.path, options); status != http.StatusOK {
			t.Fatalf("%s %s answers %d", killed.method, killed.path, status)
		}
		sim.Advance(time.Minute)
	}
	sim.SetFaults(nil)
	change(sim, func(world *state.World) {
		world.Put(&state.Volume{Storage: "local-lvm", Node: "pve1", Name: "vm-303-disk-0", VMID: 303, Content: "images",
			Format: "raw", Size: 1 << 30})
		world.Put(&state.Volume{Storage: "local-zfs", Node: "pve1", Name: "vm-303-cloudinit", VMID: 303, Content: "images",
			Format: "raw", Size: 4 << 20})
	})
	sim.Advance(time.Hour)
	for range 3 { // a half-made VM hides volumes that its configuration does not name: they show when it is gone
		found := orphans(t, sim)
		if len(found) == 0 {
			break
		}
		runAll(t, sim, found)
	}
	if found := orphans(t, sim); len(found) > 0 {
		t.Errorf("still there: %v", found)
	}
	if after := whole(sim); after != before {
		t.Errorf("the cluster was\n%s\nand is\n%s", before, after)
	}
}
