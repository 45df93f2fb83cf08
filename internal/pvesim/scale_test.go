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

// thousand is a cluster of three nodes with a thousand virtual machines, each with a disk and a network card.
func thousand() *state.World {
	nodes := []string{"pve1", "pve2", "pve3"}
	w := state.Default(nodes)
	for i := range 1000 - len(w.Guests) {
		vmid, node := 100+i, nodes[i%3]
		disk := fmt.Sprintf("vm-%d-disk-0", vmid)
		w.Put(&state.Volume{Storage: "local-lvm", Node: node, Name: disk, Content: "images", VMID: vmid, Format: "raw", Size: 8 << 30})
		w.Guests[vmid] = &state.Guest{VMID: vmid, Type: "qemu", Node: node, Config: map[string]string{
			"name": fmt.Sprintf("guest-%d", vmid), "cores": "2", "memory": "2048", "ostype": "l26", "boot": "order=scsi0",
			"scsi0": "local-lvm:" + disk + ",size=8G", "net0": "virtio=" + w.MAC() + ",bridge=vmbr0", "tags": "a;b",
			"smbios1": "uuid=" + w.UUID(), "vmgenid": w.UUID(), "description": "guest of a large cluster",
		}}
	}
	return w
}

// TestThousandGuests: the large listing takes less than 50 ms and the read of a configuration less than 1 ms, TLS, HTTP and
// the client's side included. The fastest of many tries counts, because a busy machine is not the simulator's fault; the
// median is printed.
func TestThousandGuests(t *testing.T) {
	c := start(t, pvesim.Options{World: thousand(), Latency: -1})
	factor, tries := 1, 50
	if raceDetector {
		factor, tries = 10, 10
	}
	for _, m := range []struct {
		path  string
		limit time.Duration
		holds string
	}{
		{"/cluster/resources", 50 * time.Millisecond, `"vmid":1096`},
		{"/cluster/resources?type=vm", 50 * time.Millisecond, `"vmid":1096`},
		{"/nodes/pve2/qemu/500/config", time.Millisecond, `"name":"guest-500"`},
		{"/nodes/pve2/qemu/500/status/current", time.Millisecond, `"vmid":500`},
		{"/cluster/nextid", time.Millisecond, `"1097"`},
	} {
		var took []time.Duration
		for range tries {
			begin := time.Now()
			body := c.body(m.path)
			took = append(took, time.Since(begin))
			if !strings.Contains(body, m.holds) {
				t.Fatalf("GET %s has no %s: %.300s", m.path, m.holds, body)
			}
		}
		slices.Sort(took)
		t.Logf("GET %-38s fastest %8v, median %8v, limit %v", m.path, took[0], took[len(took)/2], m.limit)
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

// TestThirtyTwoClients: 32 clients that make, list, read, change and destroy at once leave exactly what was there before.
func TestThirtyTwoClients(t *testing.T) {
	world := thousand()
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
		{"POST", base, url.Values{"vmid": {id}, "memory": {"512"}, "scsi0": {"local-lvm:1"}, "net0": {"virtio,bridge=vmbr0"}}},
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
