package handle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// recorded is a request to a PVE 8.4.21 and what came of it. Random and host-bound values are replaced by fixed words.
type recorded struct {
	N       int                        `json:"n"` // place in the sequence
	As      string                     `json:"as"`
	Do      string                     `json:"do"`
	With    map[string]string          `json:"with"`
	Status  int                        `json:"status"`
	Reason  string                     `json:"reason"`
	Errors  map[string]string          `json:"errors"`
	Data    json.RawMessage            `json:"data"`
	Exit    string                     `json:"exit"` // of the task
	Type    string                     `json:"type"`
	Log     []string                   `json:"log"`
	Volumes map[string][]string        `json:"volumes"` // "storage vmid" -> volids, afterwards
	Configs map[string]json.RawMessage `json:"configs"` // vmid -> configuration or error, afterwards
}

var (
	randomMAC  = regexp.MustCompile(`(?i:BC:24:11):[0-9A-Fa-f:]{8}`)
	randomUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	ctime      = regexp.MustCompile(`ctime=\d+`)
	qemuBuilt  = regexp.MustCompile(`creation-qemu=[\d.]+`)
)

func neutral(v any) any {
	switch v := v.(type) {
	case string:
		v = randomMAC.ReplaceAllStringFunc(v, func(mac string) string {
			if strings.HasPrefix(mac[8:], ":00:00:") {
				return mac // one that a request named
			}
			return mac[:8] + ":xx:xx:xx"
		})
		v = randomUUID.ReplaceAllString(v, "UUID")
		v = ctime.ReplaceAllString(v, "ctime=N")
		return qemuBuilt.ReplaceAllString(v, "creation-qemu=N")
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			if m, ok := item.(map[string]any); ok && m["key"] == "digest" {
				continue
			}
			out = append(out, neutral(item))
		}
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return out
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			if !slices.Contains([]string{"digest", "snaptime", "ctime", "used"}, k) {
				out[k] = neutral(item)
			}
		}
		return out
	}
	return v
}

func parsed(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return neutral(v)
}

func recordedWorld(c *Config) {
	w := state.Default([]string{"pve1"})
	clear(w.Guests)
	for k, v := range w.Volumes {
		if v.Content == "images" || v.Content == "rootdir" || v.Name == "iso/debian.iso" || v.Content == "snippets" {
			delete(w.Volumes, k)
		}
	}
	images := []string{"images", "iso", "import", "snippets"}
	for _, s := range []*state.Storage{
		{ID: "local2", Type: "dir", Path: "/var/lib/vz2", Content: images},
		{ID: "nosnip", Type: "dir", Path: "/var/lib/vz3", Content: []string{"images"}},
		{ID: "disabled1", Type: "dir", Path: "/var/lib/vz4", Content: []string{"images", "iso"}, Disabled: true},
		{ID: "local-btrfs", Type: "btrfs", Path: "/mnt/btrfs/store", Content: images},
		{ID: "lvm-thick", Type: "lvm", Path: "vgthick", Content: []string{"images"}, Total: 32 << 30},
	} {
		w.Storages[s.ID] = s
	}
	disk := w.Volumes[state.VolumeKey{Storage: "local", Node: "pve1", Name: "import/disk.qcow2"}]
	disk.Size = 600 << 20
	put := func(name, content, data string) {
		w.Put(&state.Volume{Storage: "local", Node: "pve1", Name: name, Content: content, Format: "qcow2", Size: 1 << 20, Data: data})
	}
	put("import/broken.qcow2", "import", "broken")
	put("iso/test.iso", "iso", "")
	put("snippets/ud.yaml", "snippets", "#cloud-config\n")
	w.Clock = c.World.Clock
	w.Tokens["root@pam!sep"] = c.World.Tokens["root@pam!sep"]
	c.World = w
}

func orphan(w *state.World, storage, name string, vmid int, size int64) {
	format := "raw"
	if strings.HasSuffix(name, ".qcow2") {
		format = "qcow2"
	}
	w.Put(&state.Volume{Storage: storage, Node: "pve1", Name: name, Content: "images", VMID: vmid, Format: format, Size: size})
}

// recordedSetup is what happened on the server between the recorded requests.
func recordedSetup(g *rig) map[int]func(w *state.World) {
	lock := func(id int, lock string) func(*state.World) {
		return func(w *state.World) { w.Guests[id].SetLock(lock, "state") }
	}
	ignore := func(id int, what ...string) func(*state.World) {
		return func(w *state.World) { w.Guests[id].Ignores = what }
	}
	kill := func(*state.World) { g.faults(fault.Rule{Phase: fault.KillTask}) }
	return map[int]func(w *state.World){
		36: func(w *state.World) {
			delete(w.Volumes, state.VolumeKey{Storage: "local-zfs", Node: "pve1", Name: "vm-401-disk-0"})
		},
		74:  func(w *state.World) { orphan(w, "local-zfs", "vm-200-disk-0", 200, 1<<30) },
		76:  func(w *state.World) { orphan(w, "local-zfs", "vm-200-cloudinit", 200, 4<<20) },
		77:  func(w *state.World) { orphan(w, "local2", "200/vm-200-cloudinit.qcow2", 200, 4<<20) },
		100: func(w *state.World) { orphan(w, "local-zfs", "vm-210-cloudinit", 210, 4<<20) },
		166: lock(100, "clone"), 181: lock(100, "backup"), 196: lock(100, "create"), 211: lock(100, "clone"), 233: func(w *state.World) {
			orphan(w, "local-zfs", "vm-302-cloudinit", 302, 4<<20)
		},
		288: ignore(303, "unplug"),
		302: func(w *state.World) {
			w.Guests[320].Ignores, w.Guests[320].Agent = []string{"shutdown", "unplug"}, &state.Agent{Silent: true}
		},
		306: func(w *state.World) {
			g := w.Guests[320]
			g.Running = &state.Running{QMPStatus: "running", StartedAt: w.Clock.Now(), Booted: g.Config}
			g.SetLock("backup", "state")
		}, 312: lock(320, "backup"),
		313: func(w *state.World) { w.Guests[320].SetLock("", "") },
		314: kill,
		327: kill,
		336: func(w *state.World) {
			delete(w.Volumes, state.VolumeKey{Storage: "local2", Node: "pve1", Name: "322/vm-322-disk-0.qcow2"})
		},
		339: func(w *state.World) { w.Guests[323].Agent = &state.Agent{Silent: true} },
		340: func(w *state.World) {
			w.Guests[323].Agent = &state.Agent{Interfaces: []state.AgentInterface{
				{Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []string{"127.0.0.1/8", "::1/128"}},
				{Name: "eth0", MAC: "bc:24:11:00:00:23", Addresses: []string{"10.99.2.75/16", "fe80::be24:11ff:fe00:0023/64"}},
			}}
		},
		475: func(w *state.World) {
			orphan(w, "local-zfs", "vm-122-disk-0", 122, 3<<30)
			orphan(w, "local-lvm", "vm-122-cloudinit", 122, 4<<20)
			orphan(w, "local-lvm", "vm-122-disk-1", 122, 1<<30)
			w.Guests[122] = &state.Guest{VMID: 122, Type: "qemu", Node: "pve1", Config: map[string]string{
				"scsi0": "local-zfs:vm-122-disk-0,size=3G", "ide2": "local-lvm:vm-122-cloudinit,media=cdrom", "scsi1": "local-lvm:vm-122-disk-1,size=1G",
			}}
		},
		376: func(w *state.World) {
			w.ACL = append(w.ACL, state.ACLEntry{Path: "/vms/303", Subject: "root@pam!sep", Role: "PVEVMAdmin", Propagate: true})
		},
	}
}

// left out of the sequence: what needs a task under way (TestRecordedWhileCloning …), another world, or the real network.
func replayed(row recorded) bool {
	switch {
	case row.N >= 242 && row.N <= 271 && row.N != 248 && row.N != 260:
		return false
	case row.N == 99, row.N == 372, row.N == 31: // a disk that fails while it is written, a refused connection, sizes of a real server
		return false
	}
	return true
}

func TestRecordedGuests(t *testing.T) {
	file, err := os.ReadFile("testdata/guests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, recordedWorld)
	setup := recordedSetup(g)
	count := 0
	for line := range bytes.Lines(file) {
		var row recorded
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if !replayed(row) {
			continue
		}
		count++
		t.Run(fmt.Sprintf("%d %s", row.N, row.Do), func(t *testing.T) {
			if f := setup[row.N]; f != nil {
				g.s.Do(f)
			}
			g.replay(t, row)
		})
	}
	if count < 240 {
		t.Errorf("only %d rows were replayed", count)
	}
}
