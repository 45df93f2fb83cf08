package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
)

// quick is a cluster in memory whose clock moves by itself, and a bare client of it that is not patient.
func quick(t *testing.T) (*pvesim.Sim, *bareClient) {
	t.Helper()
	sim, err := pvesim.New(pvesim.Options{TaskTime: slowTask})
	if err != nil {
		t.Fatal(err)
	}
	c, err := newBareClient(sim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		sim.Close()
	})
	c.pollEach = time.Millisecond
	return sim, c
}

// TestBareClient: it makes what the configurations ask for, with as few requests as bare.go says, and takes it away again.
func TestBareClient(t *testing.T) {
	sim, c := quick(t)
	before := sim.Snapshot()
	requests := func() int {
		var m measured
		m.count(sim.Ops())
		sim.ResetOps()
		if m.Polls == 0 {
			t.Error("no task was awaited")
		}
		return m.Requests
	}
	if err := c.createAll(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	if n := requests(); n != 1+12*3 {
		t.Errorf("create: %d requests", n)
	}
	w := sim.World()
	w.Lock()
	if g := w.Guests[111]; g == nil || g.Running == nil || g.Config["name"] != "plain-11" || !strings.Contains(g.Config["scsi0"], "size=8G") {
		t.Errorf("VM 111: %+v", g)
	}
	w.Unlock()
	if err := c.destroyAll(t.Context(), 12); err != nil {
		t.Fatal(err)
	}
	if n := requests(); n != 12*3+1 {
		t.Errorf("destroy: %d requests", n)
	}
	if after := sim.Snapshot(); !bytes.Equal(before, after) {
		t.Error("the cluster is not as before")
	}
	if err := c.cloneAll(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if n := requests(); n != 1+2*5 {
		t.Errorf("clone: %d requests", n)
	}
	w.Lock()
	defer w.Unlock()
	g := w.Guests[101]
	if g == nil || g.Running == nil || !strings.Contains(g.Config["scsi0"], "size=4G") || g.Config["ciuser"] != "ops" || g.Config["description"] != "" {
		t.Errorf("VM 101: %+v", g)
	}
}

// TestBareClientFails: a refusal and a task that fails end it.
func TestBareClientFails(t *testing.T) {
	sim, c := quick(t)
	c.storage = "nowhere"
	if err := c.createAll(t.Context(), 2); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("create on a storage that does not exist: %v", err)
	}
	c.made = []int{8000}
	if err := c.destroyAll(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "is not plain-0") {
		t.Errorf("destroy of another VM: %v", err)
	}
	w := sim.World()
	w.Lock()
	defer w.Unlock()
	if w.Guests[8000] == nil || len(w.Guests) != 3 {
		t.Errorf("%d guests", len(w.Guests))
	}
}

const oneInstance = `{"version":4,"serial":7,"resources":[{"type":"proxmox_vm","name":"plain","instances":[{"index_key":0,"attributes":{
"id":"100","vmid":100,"name":"plain-0","cores":2,"uuid":"UUID","disks":{"scsi0":{"volume":"local-lvm:vm-100-disk-0"}},
"macs":["MAC"],"none":null},"private":"PRIVATE"}]}]}`

// TestMultiply makes four of one, in the cluster and in a state, whose private part names the uuid, too.
func TestMultiply(t *testing.T) {
	sim, c := quick(t)
	if err := c.createAll(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	twins, err := multiplyGuest(sim.World(), 4, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(twins) != 4 || twins[0].name != "plain-0" || twins[3].name != "plain-3" || twins[3].uuid == twins[0].uuid || twins[3].mac == "" {
		t.Fatalf("%+v", twins)
	}
	private, err := json.Marshal([]byte(`{"identity":` + quoted(t, `{"uuid":"`+twins[0].uuid+`"}`) + `}`))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("UUID", twins[0].uuid, "MAC", twins[0].mac, `"PRIVATE"`, string(private)).Replace(oneInstance)
	out, err := multiplyState([]byte(text), twins)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Serial    int
		Resources []struct {
			Instances []struct {
				Index      int `json:"index_key"`
				Private    []byte
				Attributes struct {
					ID, Name, UUID string
					VMID, Cores    int
					Disks          map[string]struct{ Volume string }
					MACs           []string
				}
			}
		}
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Serial != 7 || len(got.Resources[0].Instances) != 4 {
		t.Fatalf("%s", out)
	}
	for i, instance := range got.Resources[0].Instances {
		a, twin := instance.Attributes, twins[i]
		if instance.Index != i || a.VMID != 100+i || a.Name != twin.name || a.UUID != twin.uuid || a.MACs[0] != twin.mac || a.Cores != 2 ||
			a.Disks["scsi0"].Volume != "local-lvm:vm-"+a.ID+"-disk-0" || !strings.Contains(string(instance.Private), quoted(t, `{"uuid":"`+twin.uuid+`"}`)) {
			t.Errorf("instance %d: %+v", i, instance)
		}
	}
	for _, broken := range []string{"", "{}", `{"resources":[{}]}`, `{"resources":[{"instances":[1]}]}`} {
		if _, err := multiplyState([]byte(broken), twins); err == nil {
			t.Errorf("%q accepted", broken)
		}
	}
}

func quoted(t *testing.T, value string) string {
	t.Helper()
	text, err := json.Marshal([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
