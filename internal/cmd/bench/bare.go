package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// bareClient is the yardstick: a careful author's script for just these VMs. It asks the server nothing that
// its author knows (which storages there are, whether the bridge exists), takes VMIDs from one listing, awaits each task, reads
// each VM back once, and before it removes one looks whether that is the one it means. It plans nothing, proves nothing, and has
// no answer to a failure but to stop.
type bareClient struct {
	http          *http.Client
	base, token   string
	taken         map[int]bool
	made          []int
	pollEach      time.Duration
	concurrency   int
	node, storage string
}

// bareTasksAtATime is Terraform's default parallelism.
const bareTasksAtATime = 10

// barePoll is how long it waits before it looks at a task again: the best of 100, 200 and 500 ms on this server.
const barePoll = 200 * time.Millisecond

func newBareClient(sim *pvesim.Sim) (*bareClient, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(sim.CAPEM())) {
		return nil, errors.New("the cluster has no CA certificate")
	}
	return &bareClient{
		http: &http.Client{Transport: &http.Transport{
			DialContext: sim.DialContext, MaxIdleConnsPerHost: bareTasksAtATime,
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		}},
		base: sim.Endpoint() + "/api2/json", token: sim.Credentials().Token,
		pollEach: barePoll, concurrency: bareTasksAtATime, node: "pve1", storage: "local-lvm",
	}, nil
}

// createAll makes n VMs and starts them.
func (b *bareClient) createAll(ctx context.Context, n int) error {
	return b.makeAll(ctx, n, func(ctx context.Context, i, vmid int) error {
		err := b.task(ctx, http.MethodPost, "/nodes/"+b.node+"/qemu", url.Values{
			"vmid": {strconv.Itoa(vmid)}, "name": {fmt.Sprintf("plain-%d", i)}, "tags": {"bench"}, "ostype": {"l26"},
			"scsihw": {"virtio-scsi-single"}, "cpu": {"x86-64-v2-AES"}, "cores": {"2"}, "memory": {"2048"},
			"scsi0": {b.storage + ":8"}, "net0": {"virtio,bridge=vmbr0"}, "boot": {"order=scsi0;net0"},
		})
		if err != nil {
			return err
		}
		return b.startAndRead(ctx, vmid)
	})
}

// cloneAll makes n clones of the template, configures them, grows their disk and starts them.
func (b *bareClient) cloneAll(ctx context.Context, n int) error {
	return b.makeAll(ctx, n, func(ctx context.Context, i, vmid int) error {
		err := b.task(ctx, http.MethodPost, "/nodes/"+b.node+"/qemu/9000/clone", url.Values{
			"newid": {strconv.Itoa(vmid)}, "name": {fmt.Sprintf("clone-%d", i)}, "full": {"1"},
		})
		if err != nil {
			return err
		}
		_, err = b.call(ctx, http.MethodPut, b.guest(vmid)+"/config", url.Values{
			"tags": {"bench"}, "onboot": {"0"}, "agent": {"0"}, "cpu": {"x86-64-v2-AES"}, "cores": {"2"},
			"memory": {"2048"}, "net0": {"virtio,bridge=vmbr0"}, "delete": {"description"},
			"ciuser": {"ops"}, "sshkeys": {strings.ReplaceAll(url.QueryEscape(sshKey), "+", "%20")}, "ipconfig0": {"ip=dhcp"},
			"nameserver": {"192.0.2.53"},
		})
		if err != nil {
			return err
		}
		if err := b.task(ctx, http.MethodPut, b.guest(vmid)+"/resize", url.Values{"disk": {"scsi0"}, "size": {"4G"}}); err != nil {
			return err
		}
		return b.startAndRead(ctx, vmid)
	})
}

// updateAll sets other tags on what was made last, and reads each VM before that: it has to be the one that is meant, and is changed as it
// was read.
func (b *bareClient) updateAll(ctx context.Context, _ int) error {
	return b.each(ctx, len(b.made), func(ctx context.Context, i int) error {
		data, err := b.call(ctx, http.MethodGet, b.guest(b.made[i])+"/config", nil)
		if err != nil {
			return err
		}
		var config struct{ Name, Digest string }
		if err := json.Unmarshal(data, &config); err != nil {
			return err
		}
		if name := fmt.Sprintf("plain-%d", i); config.Name != name {
			return fmt.Errorf("VM %d is not %s", b.made[i], name)
		}
		_, err = b.call(ctx, http.MethodPut, b.guest(b.made[i])+"/config", url.Values{
			"tags": {"bench;again"}, "digest": {config.Digest},
		})
		return err
	})
}

// destroyAll shuts down and removes what was made last, and looks once whether all of it is gone.
func (b *bareClient) destroyAll(ctx context.Context, _ int) error {
	gone := b.made
	err := b.each(ctx, len(gone), func(ctx context.Context, i int) error {
		data, err := b.call(ctx, http.MethodGet, b.guest(gone[i])+"/config", nil)
		if err != nil {
			return err
		}
		if name := fmt.Sprintf("plain-%d", i); !strings.Contains(string(data), strconv.Quote(name)) {
			return fmt.Errorf("VM %d is not %s", gone[i], name)
		}
		if err := b.task(ctx, http.MethodPost, b.guest(gone[i])+"/status/shutdown", nil); err != nil {
			return err
		}
		return b.task(ctx, http.MethodDelete, b.guest(gone[i])+"?purge=1", nil)
	})
	if err != nil {
		return err
	}
	if err := b.list(ctx); err != nil {
		return err
	}
	for _, vmid := range gone {
		if b.taken[vmid] {
			return fmt.Errorf("VM %d is still there", vmid)
		}
	}
	return nil
}

func (b *bareClient) startAndRead(ctx context.Context, vmid int) error {
	if err := b.task(ctx, http.MethodPost, b.guest(vmid)+"/status/start", nil); err != nil {
		return err
	}
	_, err := b.call(ctx, http.MethodGet, b.guest(vmid)+"/config", nil)
	return err
}

func (b *bareClient) guest(vmid int) string {
	return "/nodes/" + b.node + "/qemu/" + strconv.Itoa(vmid)
}

// makeAll hands out the lowest free VMIDs of one listing.
func (b *bareClient) makeAll(ctx context.Context, n int, one func(ctx context.Context, i, vmid int) error) error {
	if err := b.list(ctx); err != nil {
		return err
	}
	b.made = nil
	for vmid := 100; len(b.made) < n; vmid++ {
		if !b.taken[vmid] {
			b.made = append(b.made, vmid)
		}
	}
	return b.each(ctx, n, func(ctx context.Context, i int) error { return one(ctx, i, b.made[i]) })
}

// each does n things, as many at a time as Terraform does. The first failure ends it all.
func (b *bareClient) each(ctx context.Context, n int, one func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns := make(chan int, n)
	for i := range n {
		turns <- i
	}
	close(turns)
	var workers sync.WaitGroup
	for range min(n, b.concurrency) {
		workers.Go(func() {
			for i := range turns {
				if err := one(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

func (b *bareClient) list(ctx context.Context) error {
	data, err := b.call(ctx, http.MethodGet, "/cluster/resources?type=vm", nil)
	if err != nil {
		return err
	}
	var guests []struct {
		VMID int `json:"vmid"`
	}
	if err := json.Unmarshal(data, &guests); err != nil {
		return err
	}
	b.taken = map[int]bool{}
	for _, g := range guests {
		b.taken[g.VMID] = true
	}
	return nil
}

// task makes a request that starts a task, and waits until that has ended well.
func (b *bareClient) task(ctx context.Context, method, path string, params url.Values) error {
	data, err := b.call(ctx, method, path, params)
	if err != nil {
		return err
	}
	var upid string
	if err := json.Unmarshal(data, &upid); err != nil {
		return fmt.Errorf("%s %s: no UPID in %s", method, path, data)
	}
	tick := time.NewTicker(b.pollEach)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if data, err = b.call(ctx, http.MethodGet, "/nodes/"+b.node+"/tasks/"+url.PathEscape(upid)+"/status", nil); err != nil {
			return err
		}
		var status struct {
			Status     string `json:"status"`
			ExitStatus string `json:"exitstatus"`
		}
		if err := json.Unmarshal(data, &status); err != nil {
			return err
		}
		switch {
		case status.Status == "running":
		case status.ExitStatus != "OK":
			return fmt.Errorf("%s %s: task ended with %q", method, path, status.ExitStatus)
		default:
			return nil
		}
	}
}

func (b *bareClient) call(ctx context.Context, method, path string, params url.Values) (json.RawMessage, error) {
	var body io.Reader
	if params != nil {
		body = strings.NewReader(params.Encode())
	}
	q, err := http.NewRequestWithContext(ctx, method, b.base+path, body)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Authorization", "PVEAPIToken="+b.token)
	if params != nil {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.http.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s %s", method, path, resp.Status, text)
	}
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	err = json.Unmarshal(text, &answer)
	return answer.Data, err
}
