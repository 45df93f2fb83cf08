package oplog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// logLines keeps a log of JSON lines.
type logLines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// said gives the fields of the lines with a message, of all with "".
func (l *logLines) said(t testing.TB, message string) (found []map[string]string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var all map[string]any
		if err := json.Unmarshal([]byte(line), &all); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if message != "" && all["@message"] != message {
			continue
		}
		fields := map[string]string{}
		for name, value := range all {
			fields[name] = fmt.Sprint(value)
		}
		found = append(found, fields)
	}
	return found
}

func (l *logLines) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// BudgetedRequests counts the requests of a call that the simulator has seen.
func BudgetedRequests(ops []pvesim.Op) map[string]int {
	n := map[string]int{}
	for _, op := range ops {
		switch {
		case op.Method == "SSH":
			n["ssh_commands"]++
		case op.Method != http.MethodGet:
			n["writes"]++
		default:
			n["reads"]++
			if strings.HasSuffix(op.Path, "/tasks/{upid}/status") {
				n["polls"]++
			}
		}
	}
	return n
}

// sameNumbers compares the summaries in a log with what the simulator has seen of the same calls, in their order, and notes of which
// operations there were any. Calls without a request may have a summary or none.
func sameNumbers(t *testing.T, w *rig.World, log *logLines, seen map[string]int) {
	t.Helper()
	var sums []map[string]string
	for _, sum := range log.said(t, "Operation ended") {
		if sum["reads"] != "0" || sum["writes"] != "0" || sum["ssh_commands"] != "" {
			sums = append(sums, sum)
		}
	}
	calls := slices.DeleteFunc(w.Calls(), func(c rig.Call) bool { return len(c.Ops) == 0 })
	for i, call := range calls {
		if i >= len(sums) {
			t.Fatalf("%d operations made requests, %d summed up; the first without is %s of %s", len(calls), len(sums), call.RPC, call.Address)
		}
		got, want := map[string]int{}, BudgetedRequests(call.Ops)
		for _, name := range []string{"reads", "writes", "polls", "ssh_commands"} {
			if n, _ := strconv.Atoi(sums[i][name]); n > 0 {
				got[name] = n
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s of %s: the summary says %v, the server saw %v\n%v", call.RPC, call.Address, got, want, sums[i])
		}
		seen[sums[i]["operation"]+" "+sums[i]["resource"]]++
	}
	if len(sums) > len(calls) {
		t.Errorf("%d operations made requests, %d summed up: %v", len(calls), len(sums), sums[len(calls):])
	}
	w.ResetCalls()
	log.reset()
}

const summedVM = `
resource "proxmox_vm" "x" {
  node  = "pve1"
  name  = "x"
  vmid  = 777
  disks = { scsi0 = { storage = "local-zfs", size = %q } }
  description = %q
  power_state = "running"
}
action "proxmox_vm_power" "stop" {
  config {
    vmid   = 777
    action = "stop"
  }
}
`

// TestSummary: what the log says of each operation is what the server has seen of it: of each resource and data source of the examples,
// and of a VM that is made, changed, imported, switched, listed and destroyed.
func TestSummary(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	all := rig.Examples(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, "resources/") && !strings.HasPrefix(name, "data-sources/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			w, log := rig.WorldOf(t, all[name]), &logLines{}
			w.LogTo(log)
			s := w.Session(t, rig.TokenSSH, all[name])
			rig.Must(t, s.Converge(t.Context()))
			rig.Must(t, s.Destroy(t.Context()))
			sameNumbers(t, w, log, seen)
		})
	}
	t.Run("a VM", func(t *testing.T) {
		w, log := rig.NewWorld(t), &logLines{}
		w.LogTo(log)
		s := w.Session(t, rig.RootTicket, fmt.Sprintf(summedVM, "1G", "one"))
		rig.Must(t, s.Run(t.Context()))
		sum := find(t, log.said(t, "Operation ended"), "create", "proxmox_vm")
		for name, want := range map[string]string{"vmid": "777", "node": "pve1", "outcome": "ok", "steps_done": "3", "steps_undone": "0",
			"retries": "0", "thing": "VM 777 on pve1"} {
			if sum[name] != want {
				t.Errorf("%s is %q, want %q: %v", name, sum[name], want, sum)
			}
		}
		for _, name := range []string{"bytes_sent", "bytes_received", "wait_task_ms", "duration_ms"} {
			if n, _ := strconv.Atoi(sum[name]); n < 100 {
				t.Errorf("%s is %q: %v", name, sum[name], sum)
			}
		}
		w.Reconfigure(t, s, rig.RootTicket, fmt.Sprintf(summedVM, "2G", "two"))
		rig.Must(t, s.Run(t.Context()))
		w.ExpectPowerOffs(state.PowerStop)
		_, err := s.Invoke(t.Context(), "action.proxmox_vm_power.stop", nil)
		rig.Must(t, err)
		s.Forget("proxmox_vm.x")
		rig.Must(t, s.Import(t.Context(), "proxmox_vm.x", "777"))
		_, err = s.Query(t.Context(), "list \"proxmox_vm\" \"all\" {\n  provider = proxmox\n}\n", false)
		rig.Must(t, err)
		rig.Must(t, s.Destroy(t.Context()))
		sameNumbers(t, w, log, seen)
	})
	var missing []string
	for _, want := range []string{"create proxmox_vm", "read proxmox_vm", "plan proxmox_vm", "update proxmox_vm", "delete proxmox_vm", "import proxmox_vm",
		"list proxmox_vm", "invoke action.proxmox_vm_power", "create proxmox_disk", "delete proxmox_disk", "create proxmox_image",
		"delete proxmox_image", "create proxmox_vm_snapshot", "delete proxmox_vm_snapshot", "create proxmox_cloud_init_iso",
		"read data.proxmox_vms", "read data.proxmox_node"} {
		if seen[want] == 0 {
			missing = append(missing, want)
		}
	}
	if len(missing) > 0 {
		t.Errorf("nothing was summed up of %v; there is %v", missing, seen)
	}
}

func find(t *testing.T, sums []map[string]string, operation, resource string) map[string]string {
	t.Helper()
	i := slices.IndexFunc(sums, func(sum map[string]string) bool { return sum["operation"] == operation && sum["resource"] == resource })
	if i < 0 {
		t.Fatalf("no %s of %s among %v", operation, resource, sums)
	}
	return sums[i]
}

// TestSummaryOfAFailure: the summary has each undo, repeated request and wait, and each line of the operation's names it.
func TestSummaryOfAFailure(t *testing.T) {
	t.Parallel()
	w, log := rig.NewWorld(t), &logLines{}
	w.LogTo(log)
	s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(summedVM, "1G", "one"))
	start := "/nodes/{node}/qemu/{vmid}/status/start"
	w.Sim.SetFaults([]fault.Rule{
		{Match: fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}, Phase: fault.Before, Times: 1, Status: 500,
			Reason: "can't lock file '/var/lock/qemu-server/lock-777.conf' - got timeout"},
		{Match: fault.Match{Method: "POST", Path: start}, Phase: fault.Task, Reason: "no memory", Times: 9},
	})
	if s.Run(t.Context()) == nil {
		t.Fatal("the apply succeeds: the test proves nothing")
	}
	sum := find(t, log.said(t, "Operation ended"), "create", "proxmox_vm")
	for name, want := range map[string]string{"outcome": "error", "error": "Cannot create VM 777 on pve1", "steps_done": "1", "steps_undone": "1",
		"retries": "1"} {
		if sum[name] != want {
			t.Errorf("%s is %q, want %q: %v", name, sum[name], want, sum)
		}
	}
	if n, _ := strconv.Atoi(sum["wait_lock_ms"]); n == 0 {
		t.Errorf("no wait for the lock: %v", sum)
	}
	id := sum["operation_id"]
	own := 0
	for _, message := range []string{"PVE request sent", "PVE request"} {
		for _, line := range log.said(t, message) {
			if strings.HasPrefix(line["request"], id+"-") {
				own++
			}
			if line["request"] == "" || line["@module"] != "provider.pve" {
				t.Errorf("a line without the request's id, or of another module: %v", line)
			}
		}
	}
	reads, _ := strconv.Atoi(sum["reads"])
	writes, _ := strconv.Atoi(sum["writes"])
	if own != 2*(reads+writes) {
		t.Errorf("%d lines say %s, of %s reads and %s writes", own, id, sum["reads"], sum["writes"])
	}
	undone := log.said(t, "Transaction undo done")
	if failed := log.said(t, "Transaction step failed"); len(failed) != 2 || len(undone) != 1 || failed[1]["operation_id"] != id ||
		!strings.Contains(failed[1]["error"], "no memory") || failed[1]["@module"] != "provider.tx" {
		t.Errorf("steps: %v, %v", failed, undone)
	}
}
