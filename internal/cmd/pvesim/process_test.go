package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
)

// TestMain is the command itself where a test starts it as a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("PVESIM_TEST_PROCESS") != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// process is the command with some arguments.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "PVESIM_TEST_PROCESS=1", "PROXMOX_VE_ENDPOINT=", "PROXMOX_VE_API_TOKEN=",
		"PROXMOX_VE_USERNAME=", "TMPDIR="+t.TempDir(), "GOGC=100") // its memory is measured
	return cmd
}

// serve starts the command and waits until it is ready.
func serve(t *testing.T, args ...string) (cmd *exec.Cmd, line map[string]string) {
	t.Helper()
	cmd = process(t, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	text, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || json.Unmarshal([]byte(text), &line) != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return cmd, line
}

// TestTenThousandGuestsInAProcess: a world of ten thousand guests is read from its file, and listed, in less than 150
// MiB.
func TestTenThousandGuestsInAProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads the memory of a process from /proc")
	}
	f := state.File{Storages: []state.FileStorage{{ID: "thin", Type: "lvmthin", Content: []string{"images"},
		Total: 1 << 50}}}
	for n := range 5 {
		f.Nodes = append(f.Nodes, state.FileNode{Name: fmt.Sprintf("pve%d", n)})
	}
	for n := range 10_000 {
		vmid := 100 + n
		f.Guests = append(f.Guests, state.FileGuest{VMID: vmid, Type: "qemu", Node: fmt.Sprintf("pve%d", n%5),
			Running: n%3 > 0, Config: map[string]string{
				"name": fmt.Sprintf("guest-%d",
					vmid), "cores": "2", "memory": "2048", "agent": "1", "ostype": "l26", "scsihw": "virtio-scsi-single",
				"scsi0": fmt.Sprintf("thin:vm-%d-disk-0,size=8G", vmid), "ide2": fmt.Sprintf("thin:vm-%d-cloudinit,media=cdrom",
					vmid),
				"net0": "virtio,bridge=vmbr0", "boot": "order=scsi0", "tags": "a;b", "description": "guest of a large cluster"}})
	}
	file := filepath.Join(t.TempDir(), "world.yaml")
	var document bytes.Buffer
	if err := f.Write(&document); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, document.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	cmd, line := serve(t, "--world", file)
	t.Logf("ready after %v, with %d bytes of YAML", time.Since(begin).Round(time.Millisecond), document.Len())
	client := clientOf(t, line)
	var took []time.Duration
	var decoding time.Duration // of this thread: the measure of the processor, which others use at the same time
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	served := fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)
	before := processorTime(t, served)
	for range 10 {
		begin := time.Now()
		body := get(t, client, line["endpoint"]+"/api2/json/cluster/resources", line["api_token"])
		if !strings.Contains(body, `"vmid":10099`) {
			t.Fatalf("the listing lacks a guest: %.200s", body)
		}
		took = append(took, time.Since(begin))
		decodes := processorTime(t, "/proc/thread-self/stat")
		var anything any
		if err := json.Unmarshal([]byte(body), &anything); err != nil {
			t.Fatal(err)
		}
		decoding += processorTime(t, "/proc/thread-self/stat") - decodes
	}
	each := (processorTime(t, served) - before) / time.Duration(len(took))
	decoding /= time.Duration(len(took))
	slices.Sort(took)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	most := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(string(status))
	now := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(string(status))
	t.Logf("listing: fastest %v, median %v, processor time %v, %v to decode it; resident: %s KiB now, %s KiB at most",
		took[0], took[len(took)/2], each, decoding, now[1], most[1])
	var kib int
	if _, err := fmt.Sscan(now[1], &kib); err != nil || kib > 150<<10 {
		t.Errorf("%d KiB are resident, limit %d", kib, 150<<10)
	}
	// Other tests run beside this one and take caches and cores from it, so its time is held against other work's.
	if each > 2*decoding {
		t.Errorf("a listing takes %v of the processor, and to decode it %v", each, decoding)
	}
}

// processorTime is what a process or thread has used, in user and system time: the fields 14 and 15 of its stat file,
// in hundredths of a second (proc(5)).
func processorTime(t *testing.T, file string) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var user, system int
	if _, err := fmt.Sscan(fields[11], &user); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(fields[12], &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestCaptureCommand: two captures at once of a running simulator, to standard output and to a file; and what is served
// from that file.
func TestCaptureCommand(t *testing.T) {
	_, line := serve(t, "--nodes", "a,b")
	file := filepath.Join(t.TempDir(), "world.yaml")
	environment := []string{"PROXMOX_VE_ENDPOINT=" + line["endpoint"], "PROXMOX_VE_API_TOKEN=",
		"PROXMOX_VE_USERNAME=" + line["root_username"],
		"PROXMOX_VE_PASSWORD=" + line["root_password"]}
	capture := func(args ...string) (string, string, error) {
		cmd := process(t, append([]string{"capture", "-ca", line["ca_file"]}, args...)...)
		cmd.Env = append(cmd.Env, environment...)
		var out, notes bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &notes
		err := cmd.Run()
		return out.String(), notes.String(), err
	}
	var one, two string
	var both sync.WaitGroup
	both.Go(func() {
		var err error
		if one, _, err = capture(); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() {
		if out, notes, err := capture("-out", file); err != nil || out != "" || !strings.Contains(notes, "2 nodes, ") {
			t.Errorf("%v: %q %q", err, out, notes)
		}
	})
	both.Wait()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if two = string(content); one != two || !strings.HasPrefix(one, "captured:\n") {
		t.Errorf("the two captures differ, or are none:\n%.300s\n%.300s", one, two)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the file has mode %v: %v", info.Mode(), err)
	}
	if _, notes, err := capture("-out", file); err == nil || !strings.Contains(notes, "is there already") {
		t.Errorf("written over: %v %s", err, notes)
	}
	posts := 0
	for _, op := range strings.Split(get(t, clientOf(t, line), line["control"]+"/ops", ""), `"method":`)[1:] {
		switch {
		case strings.HasPrefix(op, `"POST","path":"/access/ticket"`):
			posts++
		case !strings.HasPrefix(op, `"GET"`):
			t.Errorf("a capture made the request %.80s", op)
		}
	}
	if posts != 2 {
		t.Errorf("%d logins for two captures", posts)
	}
	_, copied := serve(t, "--world", file)
	if body := get(t, clientOf(t, copied), copied["endpoint"]+"/api2/json/cluster/resources?type=vm",
		copied["api_token"]); !strings.Contains(body, `"name":"template"`) {
		t.Errorf("the captured world has no template: %s", body)
	}
}

// TestHostileUse: what is wrong is said in one line, with a status that is not 0, and nothing stays behind.
func TestHostileUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--wrold", "x"}, "flag provided but not defined: -wrold"},
		{[]string{"--listen", taken.Addr().String()}, "address already in use"},
		{[]string{"--world", write("binary.yaml", "\x00\xff\xfe")}, "binary.yaml: "},
		{[]string{"--world", write("empty.yaml", "")}, "the document is empty"},
		{[]string{"--world", write("later.yaml", "captured: {format: 99, release: x}\nnodes: [{name: a}]\n")},
			"captured in format 99"},
		{[]string{"--world", write("deep.yaml", strings.Repeat("[", 20_000))}, "deep.yaml: "},
		{[]string{"--world", dir}, "is a directory"},
		{[]string{"--faults", write("faults.json", `[{"phase": "sometime"}]`)}, `phase "sometime" is not one of`},
		{[]string{"--faults", write("unknown.json", `[{"phase": "task", "when": 1}]`)}, `unknown field "when"`},
		{[]string{"capture"}, "no endpoint"},
		{[]string{"capture", "-endpoint", "https://127.0.0.1:1"}, "neither an API token nor a user name"},
		{[]string{"capture", "-mask", "everything", "-endpoint", "https://127.0.0.1:1"}, `"everything" cannot be masked`},
		{[]string{"capture", "-ca", "/nowhere", "-endpoint", "https://127.0.0.1:1"}, "no such file"},
		{[]string{"capture", "extra"}, `unexpected argument "extra"`},
		{[]string{"help-me"}, `unexpected argument "help-me"`},
	} {
		cmd := process(t, c.args...)
		temporary := ""
		for _, kv := range cmd.Env {
			if value, ok := strings.CutPrefix(kv, "TMPDIR="); ok {
				temporary = value
			}
		}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) || strings.Contains(string(out), "goroutine") {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("%v: left %v, %v", c.args, left, err)
		}
	}
}

// TestUsageDocumented: the documentation names the flags that there are.
func TestUsageDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/design/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "Flags: ")
	list, _, _ = strings.Cut(list, "\n\n")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(list, -1) {
		documented[m[1]] = true
	}
	_, captures, _ := strings.Cut(string(text), "\n## A picture of a real cluster\n")
	captures, _, _ = strings.Cut(captures, "\n## ")
	for args, is := range map[string]func(name string) bool{
		"": func(name string) bool { return documented[name] },
		"capture": func(name string) bool {
			return name == "endpoint" || regexp.MustCompile("(?:`| )-"+name+"\\b").MatchString(captures) // the endpoint is in the environment
		},
	} {
		cmd := process(t, append(strings.Fields(args), "-h")...)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Usage: pvesim") {
			t.Fatalf("%v: %s", err, out)
		}
		flags := regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(string(out), -1)
		if len(flags) < 4 {
			t.Fatalf("flags %v in %s", flags, out)
		}
		for _, m := range flags {
			if !is(m[1]) {
				t.Errorf("pvesim %s: -%s is not documented", args, m[1])
			}
			delete(documented, m[1])
		}
	}
	if len(documented) > 0 {
		t.Errorf("documented, and no flags: %v", documented)
	}
}

// TestTerm: SIGTERM ends the process at once and well, also with clients connected, and takes its files along.
func TestTerm(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("has no SIGTERM")
	}
	cmd, line := serve(t, "--latency", "1m")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := clientOf(t, line)
	waiting := make(chan error, 1)
	go func() {
		q, _ := http.NewRequestWithContext(ctx, http.MethodGet, line["endpoint"]+"/api2/json/version", nil)
		resp, err := client.Do(q)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		waiting <- err
	}()
	for !strings.Contains(get(t, client, line["control"]+"/ops", ""), "/version") {
		runtime.Gosched()
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := <-waiting; err == nil {
		t.Error("the request was answered")
	}
	if _, err := os.Stat(filepath.Dir(line["ca_file"])); !os.IsNotExist(err) {
		t.Errorf("the temporary files remain: %v", err)
	}
}
