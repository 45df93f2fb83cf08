package pvesim_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// large is a cluster of three nodes with so many guests, most of them virtual machines with a disk and a network card.
func large(guests int) *state.World {
	nodes := []string{"pve1", "pve2", "pve3"}
	w := state.Default(nodes)
	for vmid := 100; len(w.Guests) < guests; vmid++ {
		if w.Guests[vmid] != nil {
			continue
		}
		node := nodes[(vmid-100)%3]
		disk := fmt.Sprintf("vm-%d-disk-0", vmid)
		w.Put(&state.Volume{Storage: "local-lvm", Node: node, Name: disk, Content: "images", VMID: vmid, Format: "raw",
			Size: 8 << 30})
		w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: node, Config: map[string]string{
			"name": fmt.Sprintf("guest-%d", vmid), "cores": "2", "memory": "2048", "ostype": "l26", "boot": "order=scsi0",
			"scsi0": "local-lvm:" + disk + ",size=8G", "net0": "virtio=" + w.MAC() + ",bridge=vmbr0", "tags": "a;b",
			"smbios1": "uuid=" + w.UUID(), "vmgenid": w.UUID(), "description": "guest of a large cluster",
		}}
	}
	return w
}

// timing is a request, what its answer holds, and how long it may take.
type timing struct {
	path  string
	limit time.Duration
	holds string
}

// TestThousandGuests: the large listing takes less than 20 ms and the read of a configuration less than 1 ms, TLS, HTTP
// and the client's side included.
func TestThousandGuests(t *testing.T) {
	c := start(t, pvesim.Options{World: large(1000), Latency: -1})
	c.quick(50, []timing{
		{"/cluster/resources", 20 * time.Millisecond, `"vmid":1096`},
		{"/cluster/resources?type=vm", 20 * time.Millisecond, `"vmid":1096`},
		{"/nodes/pve2/qemu/500/config", time.Millisecond, `"name":"guest-500"`},
		{"/nodes/pve2/qemu/500/status/current", time.Millisecond, `"vmid":500`},
		{"/cluster/nextid", time.Millisecond, `"1097"`},
	})
}

// TestTenThousandGuests: the same of the largest cluster that the simulator is meant for, with as many tasks.
func TestTenThousandGuests(t *testing.T) {
	w := large(10_000)
	for i := range 10_000 {
		upid := fmt.Sprintf("UPID:pve1:%08X:%08X:%08X:qmstart:%d:root@pam:", i+1000, i, 0x69000000+i, 100+i)
		w.Tasks[upid] = &state.Task{UPID: upid, Node: "pve1", Type: "qmstart", ID: fmt.Sprint(100 + i), User: "root@pam",
			ExitStatus: "OK",
			Start:      time.Unix(int64(0x69000000+i), 0), End: time.Unix(int64(0x69000000+i), 0)}
	}
	c := start(t, pvesim.Options{World: w, Latency: -1})
	c.quick(20, []timing{
		{"/cluster/resources", 100 * time.Millisecond, `"vmid":9999`},
		{"/cluster/resources?type=vm", 100 * time.Millisecond, `"vmid":9999`},
		{"/nodes/pve1/qemu", 50 * time.Millisecond, `"vmid":8002`},
		{"/nodes/pve1/storage/local-lvm/content", 50 * time.Millisecond, `vm-8002-disk-0`},
		{"/nodes/pve1/tasks?limit=500", 50 * time.Millisecond, `:qmstart:10000:`},
		{"/nodes/pve1/tasks?vmid=5000", 5 * time.Millisecond, `:qmstart:5000:`},
		{"/nodes/pve2/qemu/500/config", time.Millisecond, `"name":"guest-500"`},
		{"/nodes/pve2/qemu/500/status/current", time.Millisecond, `"vmid":500`},
		{"/cluster/nextid", time.Millisecond, `"data":"1`},
	})
}

// quick makes each request so many times. It counts the processor time of this process, not the time on the wall, and
// the cheapest try: other load on the machine is not the simulator's fault. The median is printed.
func (c *cluster) quick(tries int, requests []timing) {
	c.t.Helper()
	t, factor := c.t, 1
	if raceDetector {
		factor, tries = 10, tries/5
	}
	for _, m := range requests {
		var took []time.Duration
		for range tries {
			begin := processorTime()
			body := c.body(m.path)
			took = append(took, processorTime()-begin)
			if !strings.Contains(body, m.holds) {
				t.Fatalf("GET %s has no %s: %.300s", m.path, m.holds, body)
			}
		}
		slices.Sort(took)
		t.Logf("GET %-38s cheapest %8v, median %8v, limit %v", m.path, took[0], took[len(took)/2], m.limit)
		limit := time.Duration(factor) * m.limit
		if took[0] > limit {
			t.Errorf("GET %s takes %v at best, limit %v", m.path, took[0], limit)
		}
	}
}

func (c *cluster) body(path string) string {
	c.t.Helper()
	q, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.Endpoint()+"/api2/json"+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	q.Header.Set("Authorization", "PVEAPIToken="+c.Credentials().Token)
	resp, err := c.client.Do(q)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// TestThirtyTwoClients: 32 clients that make, list, read, change and destroy at once leave exactly what was there
// before.
func TestThirtyTwoClients(t *testing.T) {
	world := large(1000)
	if raceDetector {
		world = nil // the default one: the detector makes the large listings slow, and finds no more in them
	}
	c := start(t, pvesim.Options{World: world, Nodes: []string{"pve1", "pve2", "pve3"}, TaskTime: time.Second})
	before := c.Snapshot()
	var clients sync.WaitGroup
	for n := range 32 {
		clients.Go(func() {
			if err := c.life(2000+n, fmt.Sprintf("pve%d", n%3+1)); err != nil {
				t.Errorf("client %d: %v", n, err)
			}
		})
	}
	clients.Wait()
	if after := c.Snapshot(); !bytes.Equal(after, before) {
		t.Errorf("the cluster is not as before: %d bytes of snapshot, now %d", len(before), len(after))
	}
}

// life takes a VM from its creation to its end and waits for every task.
func (c *cluster) life(vmid int, node string) error {
	base, id := "/nodes/"+node+"/qemu", fmt.Sprint(vmid)
	for _, step := range []struct {
		method, path string
		params       url.Values
	}{
		{"POST", base, url.Values{"vmid": {id}, "memory": {"512"}, "scsi0": {"local-lvm:1"},
			"net0": {"virtio,bridge=vmbr0"}}},
		{"GET", "/cluster/resources", nil},
		{"PUT", base + "/" + id + "/config", url.Values{"name": {"concurrent"}, "tags": {"x"}}},
		{"POST", base + "/" + id + "/status/start", nil},
		{"GET", base + "/" + id + "/config", nil},
		{"GET", "/nodes/" + node + "/tasks", url.Values{"vmid": {id}}},
		{"POST", base + "/" + id + "/status/stop", nil},
		{"DELETE", base + "/" + id, url.Values{"purge": {"1"}}},
	} {
		status, reason, data, err := c.try(c.Credentials().Token, step.method, step.path, step.params)
		if err == nil && status != 200 {
			err = fmt.Errorf("%d %s", status, reason)
		}
		if upid, ok := data.(string); err == nil && ok && strings.HasPrefix(upid, "UPID:") {
			err = c.ended(node, upid)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", step.method, step.path, err)
		}
	}
	return nil
}

// ended polls a task until it has ended, and wants it well.
func (c *cluster) ended(node, upid string) error {
	for {
		_, _, data, err := c.try(c.Credentials().Token, "GET", "/nodes/"+node+"/tasks/"+url.PathEscape(upid)+"/status", nil)
		if err != nil {
			return err
		}
		task, _ := data.(map[string]any)
		switch {
		case task["status"] == "running":
		case task["exitstatus"] != "OK":
			return fmt.Errorf("task %s ended %v", upid, task["exitstatus"])
		default:
			return nil
		}
	}
}
