package pvesim_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a Sim and an independent HTTP client for it.
type cluster struct {
	t *testing.T
	*pvesim.Sim
	client *http.Client
}

func start(t *testing.T, o pvesim.Options) *cluster {
	t.Helper()
	sim, err := pvesim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(sim.CAPEM())) {
		t.Fatal("no CA certificate")
	}
	transport := &http.Transport{DialContext: sim.DialContext,
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		sim.Close()
	})
	return &cluster{t: t, Sim: sim, client: &http.Client{Transport: transport}}
}

// do makes a request as the provider's token and returns status, reason phrase and data.
func (c *cluster) do(method, path string, params url.Values) (int, string, any) {
	c.t.Helper()
	status, reason, data, err := c.try(c.Credentials().Token, method, path, params)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, reason, data
}

func (c *cluster) try(token, method, path string, params url.Values) (int, string, any, error) {
	target := c.Endpoint() + "/api2/json" + path
	var body io.Reader
	if method == "GET" || method == "DELETE" {
		target += "?" + params.Encode()
	} else {
		body = strings.NewReader(params.Encode())
	}
	q, err := http.NewRequestWithContext(context.Background(), method, target, body)
	if err != nil {
		return 0, "", nil, err
	}
	q.Header.Set("Authorization", "PVEAPIToken="+token)
	if body != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := c.client.Do(q)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", nil, err
	}
	var doc struct{ Data any }
	if len(text) > 0 {
		if err := json.Unmarshal(text, &doc); err != nil {
			return 0, "", nil, fmt.Errorf("%s: %w", text, err)
		}
	}
	_, reason, _ := strings.Cut(resp.Status, " ")
	return resp.StatusCode, reason, doc.Data, nil
}

// task makes a request that forks a worker and returns how that ended.
func (c *cluster) task(method, path string, params url.Values) string {
	c.t.Helper()
	status, reason, data := c.do(method, path, params)
	upid, ok := data.(string)
	if !ok {
		return fmt.Sprint(status, " ", reason)
	}
	for {
		_, reason, data := c.do("GET", "/nodes/pve1/tasks/"+url.PathEscape(upid)+"/status", nil)
		m, ok := data.(map[string]any)
		if !ok {
			c.t.Fatalf("status of %s: %s", upid, reason)
		}
		if m["status"] == "stopped" {
			return fmt.Sprint(m["exitstatus"])
		}
	}
}

func (c *cluster) healthy() {
	c.t.Helper()
	w := c.World()
	w.Lock()
	defer w.Unlock()
	if err := w.Check(); err != nil {
		c.t.Errorf("world: %v", err)
	}
}

func create() url.Values {
	return url.Values{
		"vmid": {"100"}, "name": {"web"}, "scsi0": {"local-zfs:8"}, "scsi1": {"local-lvm:1"},
		"efidisk0": {"local-zfs:1,efitype=4m"},
		"ide2":     {"local-zfs:cloudinit"}, "net0": {"virtio,bridge=vmbr0"}, "bios": {"ovmf"}, "pool": {"web"},
		"start": {"1"},
	}
}

func clone() url.Values {
	return url.Values{"newid": {"101"}, "name": {"copy"}, "full": {"1"}, "pool": {"web"}, "storage": {"local-lvm"}}
}

func TestLifeOfVMs(t *testing.T) {
	for _, taskTime := range []time.Duration{0, 5 * time.Second} {
		t.Run(taskTime.String(), func(t *testing.T) {
			c := start(t, pvesim.Options{TaskTime: taskTime})
			before := string(c.Snapshot())
			for _, step := range []struct {
				method, path string
				params       url.Values
			}{
				{"POST", "/nodes/pve1/qemu", create()},
				{"POST", "/nodes/pve1/qemu/9000/clone", clone()},
				{"PUT", "/nodes/pve1/qemu/101/resize", url.Values{"disk": {"scsi0"}, "size": {"+1G"}}},
				{"POST", "/nodes/pve1/qemu/101/config", url.Values{"protection": {"0"}, "memory": {"4096"}}},
				{"POST", "/nodes/pve1/qemu/101/status/start", nil},
				{"POST", "/nodes/pve1/qemu/101/status/stop", nil},
				{"DELETE", "/nodes/pve1/qemu/101", url.Values{"purge": {"1"}}},
				{"POST", "/nodes/pve1/qemu/100/status/stop", nil},
				{"DELETE", "/nodes/pve1/qemu/100", nil},
			} {
				if exit := c.task(step.method, step.path, step.params); exit != "OK" {
					t.Fatalf("%s %s: %s", step.method, step.path, exit)
				}
				c.healthy()
			}
			if after := string(c.Snapshot()); after != before {
				t.Errorf("something remains:\n%s", after)
			}
		})
	}
}

// TestPhases lets every phase strike a create, a clone and a destroy, and looks at what PVE would leave behind.
func TestPhases(t *testing.T) {
	type left struct {
		guest   string // name of the guest, "-" without one
		lock    string
		volumes bool
	}
	none, mine := left{"-", "", false}, left{"web", "", true}
	for _, row := range []struct {
		phase   fault.Phase
		create  left
		clone   left
		destroy left
	}{
		{fault.Before, none, none, mine},
		{fault.After, mine, left{"copy", "", true}, none},
		{fault.Task, none, none, left{"web", "", true}},
		{fault.KillTask, left{"", "create", true}, left{"copy", "clone", true}, left{"web", "", true}},
		{fault.Partial, left{"-", "", true}, left{"-", "", true}, left{}},
		{fault.Rival, left{"rival", "", true}, left{"rival", "", true}, left{"rival", "", true}},
	} {
		for _, op := range []struct {
			name, method, path string
			vmid               int
			params             url.Values
			want               left
		}{
			{"create", "POST", "/nodes/pve1/qemu", 100, create(), row.create},
			{"clone", "POST", "/nodes/pve1/qemu/9000/clone", 101, clone(), row.clone},
			{"destroy", "DELETE", "/nodes/pve1/qemu/100", 100, nil, row.destroy},
		} {
			if op.want == (left{}) {
				continue // a destroy has no clean-up that could fail
			}
			t.Run(string(row.phase)+"/"+op.name, func(t *testing.T) {
				c := start(t, pvesim.Options{})
				if op.name == "destroy" {
					v := create()
					v.Del("start")
					c.task("POST", "/nodes/pve1/qemu", v)
				}
				c.SetFaults([]fault.Rule{{Match: fault.Match{Method: op.method, VMID: op.vmid}, Phase: row.phase}})
				_, _, _, err := c.try(c.Credentials().Token, op.method, op.path, op.params)
				if (err != nil) != (row.phase == fault.After) {
					t.Errorf("request: %v", err)
				}
				if c.FaultsFired() != 1 {
					t.Errorf("%d faults had an effect", c.FaultsFired())
				}
				c.healthy()
				w := c.World()
				w.Lock()
				defer w.Unlock()
				got := left{guest: "-"}
				if g := w.Guests[op.vmid]; g != nil {
					got.guest, got.lock = g.Config["name"], g.Config["lock"]
				}
				for _, v := range w.Volumes {
					got.volumes = got.volumes || v.VMID == op.vmid
				}
				if got != op.want {
					t.Errorf("left behind: %+v, want %+v", got, op.want)
				}
			})
		}
	}
}

func TestSnapshotAndLoad(t *testing.T) {
	c := start(t, pvesim.Options{Nodes: []string{"a", "b", "c"}})
	before := c.Snapshot()
	if status, reason, _ := c.do("POST", "/pools", url.Values{"poolid": {"x"}}); status != 200 {
		t.Fatal(reason)
	}
	if bytes.Equal(c.Snapshot(), before) {
		t.Error("the snapshot shows no change")
	}
	if err := c.Load(before); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(c.Snapshot(), before) {
		t.Error("load then snapshot differs")
	}
	c.ResetOps()
	c.do("GET", "/nodes", nil)
	if ops := c.Ops(); len(ops) != 1 || ops[0].Seq != 1 || ops[0].Identity != "terraform@pve!prov" {
		t.Errorf("operations %+v", ops)
	}
}

func TestCredentials(t *testing.T) {
	c := start(t, pvesim.Options{})
	cr := c.Credentials()
	for token, want := range map[string]bool{cr.Token: true, cr.TokenNoAllocate: false, cr.ReadOnlyToken: false,
		cr.RootToken: true} {
		_, _, data, err := c.try(token, "GET", "/access/permissions", url.Values{"path": {"/storage/local-zfs"}})
		m, _ := data.(map[string]any)
		privs, _ := m["/storage/local-zfs"].(map[string]any)
		if err != nil || (privs["Datastore.Allocate"] != nil) != want || privs["Datastore.Audit"] == nil {
			t.Errorf("%s: %v %v", token[:12], privs, err)
		}
	}
}

func TestRealNetwork(t *testing.T) {
	c := start(t, pvesim.Options{RealNetwork: true, Profile: "9.0"})
	if status, reason, data := c.do("GET", "/version", nil); status != 200 || data.(map[string]any)["release"] != "9.0" {
		t.Errorf("%d %s %v", status, reason, data)
	}
}

// TestManyClients is for the race detector: 32 clients on one cluster.
func TestManyClients(t *testing.T) {
	c := start(t, pvesim.Options{TaskTime: time.Second})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			id := fmt.Sprint(200 + i)
			if exit := c.task("POST", "/nodes/pve1/qemu", url.Values{"vmid": {id}, "scsi0": {"local-lvm:1"}}); exit != "OK" {
				t.Errorf("create %s: %s", id, exit)
			}
			if exit := c.task("DELETE", "/nodes/pve1/qemu/"+id, nil); exit != "OK" {
				t.Errorf("destroy %s: %s", id, exit)
			}
		}()
	}
	wg.Wait()
	c.healthy()
}

func TestAdvance(t *testing.T) {
	c := start(t, pvesim.Options{})
	c.task("POST", "/nodes/pve1/qemu", url.Values{"vmid": {"100"}, "name": {"new"}})
	status := func() any {
		_, _, data := c.do("GET", "/cluster/resources", url.Values{"type": {"vm"}})
		for _, row := range data.([]any) {
			if m, _ := row.(map[string]any); m["vmid"] == 100.0 {
				return m["status"]
			}
		}
		return nil
	}
	if s := status(); s != "unknown" {
		t.Errorf("at once: %v", s)
	}
	c.Advance(10 * time.Second)
	if s := status(); s != "stopped" {
		t.Errorf("10 s later: %v", s)
	}
}

func TestWorldOfOnesOwn(t *testing.T) {
	w := state.Default([]string{"solo"})
	c := start(t, pvesim.Options{World: w})
	if c.World() != w {
		t.Error("another world")
	}
	_, _, data := c.do("GET", "/nodes", nil)
	if list, _ := data.([]any); len(list) != 1 {
		t.Errorf("nodes %v", data)
	}
}
