package state

import (
	"strings"
	"testing"
	"time"
)

const lively = `
nodes: [{name: a}, {name: b}]
ha_round_seconds: 2.5
guests:
  - {vmid: 100, node: a, paused: true, shutdown_seconds: 20, stop_warning: "LV in use", config: {scsi0: "local-zfs:vm-100-disk-0,size=1G"}}
  - {vmid: 101, node: a, suspended: true, config: {scsi0: "local-zfs:vm-101-disk-0,size=1G"}}
  - {vmid: 102, node: a, suspended: true, config: {scsi0: "local:102/vm-102-disk-0.qcow2,size=1G"}}
ha: [{sid: "vm:100", group: web}]
ha_groups: [{id: web, nodes: [a], restricted: true}]
replication: [{id: 100-0, target: b}]
backups: [{id: nightly, vmids: [100, 101]}, {id: all, all: true, exclude: [101]}]
mappings: [{kind: pci, id: gpu, nodes: [a], live_migration: true}]
`

func TestReadLife(t *testing.T) {
	w, err := Read([]byte(lively))
	if err != nil {
		t.Fatal(err)
	}
	if g := w.Guests[100]; g.Running == nil || g.Running.QMPStatus != "paused" || g.ShutdownSeconds != 20 ||
		g.StopWarning != "LV in use" {
		t.Errorf("guest 100: %+v", g)
	}
	for id, volid := range map[int]string{101: "local-zfs:vm-101-state-suspend-2026-01-01",
		102: "local:102/vm-102-state-suspend-2026-01-01.raw"} {
		if g := w.Guests[id]; g.Running != nil || g.Lock() != "suspended" || g.Config["vmstate"] != volid ||
			w.Volume("a", volid) == nil {
			t.Errorf("guest %d: %+v", id, g)
		}
	}
	if w.HADelay() != 2500*time.Millisecond || !w.HAGroups["web"].Restricted || w.ReplicationOf(100).Target != "b" ||
		w.ReplicationOf(101) != nil {
		t.Errorf("round %v, groups %v, replication %v", w.HADelay(), w.HAGroups, w.Replication)
	}
	if !w.Mapping("pci", "gpu").On("a") || w.Mapping("pci", "gpu").On("b") || w.Mapping("usb", "gpu").On("a") ||
		!w.Backups["all"].All {
		t.Errorf("mappings %v, backups %v", w.Mappings, w.Backups)
	}
	again := Default([]string{"a", "b"})
	if err := again.Load(w.Snapshot()); err != nil || len(again.Replication) != 1 || len(again.Backups) != 2 ||
		len(again.HAGroups) != 1 {
		t.Errorf("loaded: %v; %v %v %v", err, again.Replication, again.Backups, again.HAGroups)
	}
	PurgeJobs(w, 100)
	PurgeJobs(w, 101)
	if len(w.Replication) != 0 || w.Backups["nightly"] != nil || len(w.Backups["all"].Exclude) != 0 ||
		w.Backups["all"] == nil {
		t.Errorf("purged: %v %v", w.Replication, w.Backups)
	}
}

func TestReadLifeRefuses(t *testing.T) {
	for change, want := range map[string]string{
		"paused: true|paused: true, suspended: true": "guest 100: it is paused, or suspended, or just running",
		"100-0|150-0":                         `replication job "150-0": no such guest, or no node "b"`,
		"kind: pci|kind: gpu":                 `mapping gpu: kind "gpu" is not one of pci, usb, dir`,
		"nodes: [a], restr|nodes: [z], restr": `HA group web: node "z" does not exist`,
		"all: true|all: false":                `backup job "all": it is either of all guests or of some`,
	} {
		old, replacement, _ := strings.Cut(change, "|")
		_, err := Read([]byte(strings.Replace(lively, old, replacement, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", change, err)
		}
	}
}

func TestPowerLoss(t *testing.T) {
	w, err := Read([]byte(lively))
	if err != nil {
		t.Fatal(err)
	}
	w.Clock = fixed{}
	w.PowerLoss(w.Guests[101], PowerStop, nil)
	w.PowerLoss(w.Guests[100], PowerShutdown, &Task{UPID: "UPID:x", Type: "qmshutdown", User: "a@pve"})
	w.PowerLoss(w.Guests[100], PowerStop, nil)
	want := []PowerOff{{VMID: 100, Node: "a", Kind: PowerShutdown, Task: "UPID:x", TaskType: "qmshutdown", User: "a@pve"},
		{VMID: 100, Node: "a", Kind: PowerStop, Hard: true}}
	if len(w.PowerOffs) != 2 || w.PowerOffs[0] != want[0] || w.PowerOffs[1] != want[1] {
		t.Errorf("%+v", w.PowerOffs)
	}
}

type fixed struct{}

func (fixed) Now() time.Time      { return time.Time{} }
func (fixed) Sleep(time.Duration) {}
