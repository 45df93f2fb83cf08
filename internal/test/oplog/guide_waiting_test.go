package oplog_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/clock"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

const waitingGuide = "../../../templates/guides/what-is-it-waiting-for.md.tmpl"

const waitingVM = `
resource "proxmox_vm" "x" {
  node     = "pve1"
  vmid     = 777
  memory   = { size = %d }
  disks    = { scsi0 = { storage = "local-zfs", size = "1G" } }
  networks = { net0 = { model = "virtio", bridge = "vmbr0", macaddr = "BC:24:11:00:00:01" } }
  agent    = { enabled = true }
  power_state = "running"
  %s
}
`

// waits are the ways to wait that the guide quotes, each as what an apply meets that begins with a VM or with none.
func waits() map[string]func(t *testing.T, w *rig.World, run func(memory int, more string)) {
	read := fault.Match{Method: "GET", Path: "/nodes/{node}/qemu/{vmid}/pending"}
	create := fault.Match{Method: "POST", Path: "/nodes/{node}/qemu"}
	return map[string]func(t *testing.T, w *rig.World, run func(int, string)){
		"nothing": func(_ *testing.T, _ *rig.World, run func(int, string)) { run(512, "") },
		"a task": func(_ *testing.T, w *rig.World, run func(int, string)) {
			w.Sim.SetTaskTime(70 * time.Second)
			run(512, "")
		},
		"a lock of a file": func(_ *testing.T, w *rig.World, run func(int, string)) {
			w.Sim.SetFaults([]fault.Rule{{Match: create, Phase: fault.Before, Times: 20, Status: 500, DelayMS: 500,
				Reason: "can't lock file '/var/lock/qemu-server/lock-777.conf' - got timeout"}})
			run(512, "")
		},
		"a lock of a backup": func(_ *testing.T, w *rig.World, run func(int, string)) {
			run(512, "")
			w.Sim.HoldLock(777, "backup", 3*time.Minute, "root@pam")
			run(1024, "reboot_policy = \"never\"")
		},
		"an agent": func(_ *testing.T, w *rig.World, run func(int, string)) {
			rig.SilenceAgent(w, 25)
			run(512, `wait_for = { agent = true, timeout = "3m", on_timeout = "warn" }`)
		},
		"an answer": func(_ *testing.T, w *rig.World, run func(int, string)) {
			run(512, "")
			w.Sim.SetFaults([]fault.Rule{{Match: read, Phase: fault.Before, Times: 1, Status: 500, DelayMS: 34000, Reason: "busy"}})
			run(512, "")
		},
	}
}

// TestGuideWaiting: each line that the guide quotes is written, but for its numbers.
func TestGuideWaiting(t *testing.T) {
	t.Parallel()
	written := map[string]bool{}
	for name, meet := range waits() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, log := rig.NewWorld(t, pvesim.Options{Clock: clock.Real{}, Latency: 100 * time.Millisecond}), &logLines{}
				t.Cleanup(func() { time.Sleep(20 * time.Second) }) // until idle connections have ended
				w.LogTo(log)
				s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(waitingVM, 512, ""))
				meet(t, w, func(memory int, more string) {
					if !strings.Contains(more, "wait_for") {
						more += "\n  wait_for = { agent = false }"
					}
					w.Reconfigure(t, s, rig.TokenNoSSH, fmt.Sprintf(waitingVM, memory, more))
					rig.Must(t, s.Run(t.Context()))
				})
				for _, line := range log.all(t) {
					message, _, _ := strings.Cut(line["@message"], ", for an answer to ") // a poll may be under way just then
					written[withoutNumbers(message)], written[withoutNumbers(line["@message"])] = true, true
					if line["@message"] == "Operation ended" {
						written[withoutNumbers(summed(line))] = true
					}
				}
			})
		})
	}
	quoted := 0
	for _, block := range regexp.MustCompile("(?s)```text\n(.*?)```").FindAllStringSubmatch(rig.ReadFile(t, waitingGuide), -1) {
		for line := range strings.Lines(block[1]) {
			quoted++
			if want := withoutNumbers(strings.TrimSpace(line)); !written[want] {
				t.Errorf("the guide quotes %q, and that is not written. There is\n%s", want, strings.Join(slices.Sorted(maps.Keys(written)), "\n"))
			}
		}
	}
	if quoted < 6 {
		t.Errorf("the guide quotes %d lines", quoted)
	}
}

// TestGuideWaitingOfAnAction: the user of a waiting action sees its reason to wait, and no message once the wait is over.
func TestGuideWaitingOfAnAction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := rig.NewWorld(t, pvesim.Options{Clock: clock.Real{}, Latency: 20 * time.Millisecond})
		t.Cleanup(func() { time.Sleep(20 * time.Second) }) // until idle connections have ended
		s := w.Session(t, rig.TokenNoSSH, fmt.Sprintf(waitingVM, 512, "")+`
action "proxmox_vm_power" "stop" {
  config {
    vmid   = 777
    action = "stop"
  }
}`)
		rig.Must(t, s.Run(t.Context()))
		w.ExpectPowerOffs(state.PowerStop)
		w.Sim.SetTaskTime(150 * time.Second)
		progress, err := s.Invoke(t.Context(), "action.proxmox_vm_power.stop", nil)
		rig.Must(t, err)
		told := slices.DeleteFunc(slices.Clone(progress), func(line string) bool { return !strings.HasPrefix(line, "Still at it") })
		if len(told) < 2 || !strings.HasPrefix(told[1], "Still at it after 1m0s. Waiting for task UPID:pve1:") {
			t.Errorf("told %q", progress)
		}
	})
}

// all gives the fields of all lines.
func (l *logLines) all(t testing.TB) (found []map[string]string) {
	t.Helper()
	return l.said(t, "")
}

// summed is a summary as the guide writes it: in its order, without the ids.
func summed(line map[string]string) string {
	var text []string
	for _, name := range []string{"operation", "resource", "thing", "vmid", "node", "outcome", "duration_ms", "reads", "writes", "polls", "retries", "steps_done",
		"steps_undone", "bytes_sent", "bytes_received", "wait_answer_ms", "wait_task_ms", "wait_lock_ms", "wait_agent_ms", "wait_pause_ms"} {
		value, ok := line[name]
		if !ok {
			continue
		}
		if strings.Contains(value, " ") {
			value = `"` + value + `"`
		}
		text = append(text, name+"="+value)
	}
	return strings.Join(text, " ")
}

// withoutNumbers is a text with the same for each number, duration, time and task.
func withoutNumbers(text string) string {
	text = regexp.MustCompile(`UPID:(\w+):[0-9A-F:]+:(\w+):(\d+):[^:]+:`).ReplaceAllString(text, "UPID:$1:$2:$3:")
	text = regexp.MustCompile(`\d+-\d+-\d+T[0-9:]+Z`).ReplaceAllString(text, "(time)")
	text = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`).ReplaceAllString(text, "(duration)")
	return regexp.MustCompile(`\d+`).ReplaceAllString(text, "9")
}

// TestGuideWaitingIsComplete: the guide has every field of a summary and every kind of wait, and no others, and its collector listens
// where its apply sends to.
func TestGuideWaitingIsComplete(t *testing.T) {
	t.Parallel()
	guide := rig.ReadFile(t, waitingGuide)
	names := regexp.MustCompile(`\[kinds\]string\{(.*)\}\[k\]`).FindStringSubmatch(rig.ReadFile(t, "../../framework/oplog/summary.go"))
	if names == nil {
		t.Fatal("the kinds of waits are written in another way")
	}
	kinds := strings.Split(strings.ReplaceAll(names[1], `"`, ""), ", ")
	for _, kind := range kinds {
		if strings.Count(guide, "| `wait_"+kind+"_ms` |") != 1 {
			t.Errorf("the guide does not explain a wait for %s", kind)
		}
	}
	for _, kind := range regexp.MustCompile("`wait_([a-z]+)_ms`").FindAllStringSubmatch(guide, -1) {
		if !slices.Contains(kinds, kind[1]) {
			t.Errorf("there is no wait for %s", kind[1])
		}
	}
	for _, field := range regexp.MustCompile(`"([a-z][a-z_]+)"\]?(?::| =)`).FindAllStringSubmatch(
		rig.ReadFile(t, "../../framework/oplog/interceptor/summary.go")+rig.ReadFile(t, "../../framework/oplog/interceptor/server.go"), -1) {
		if !strings.Contains(guide, "`"+field[1]+"`") {
			t.Errorf("the guide does not explain %s", field[1])
		}
	}
	var collector struct {
		Receivers struct {
			OTLP struct {
				Protocols struct{ HTTP struct{ Endpoint string } }
			}
		}
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(guide)
	if len(block) == 0 || yaml.Unmarshal([]byte(block[1]), &collector) != nil || collector.Receivers.OTLP.Protocols.HTTP.Endpoint == "" ||
		!strings.Contains(guide, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+collector.Receivers.OTLP.Protocols.HTTP.Endpoint+" ") {
		t.Errorf("the collector: %v %+v", block, collector)
	}
}
