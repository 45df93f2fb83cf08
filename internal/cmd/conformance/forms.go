package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// roleNames are the recorded server's names of things, and their roles.
var roleNames = map[string]string{
	"local": "{dir}", "local2": "{dir2}", "nosnip": "{dir3}", "local-zfs": "{zfs}", "local-lvm": "{lvmthin}", "lvm-thick": "{lvm}",
	"local-btrfs": "{btrfs}", "disabled1": "{disabled}", "pve1": "{node}", "vmbr0": "{bridge}",
	"/var/lib/vz": "{dir.path}", "/var/lib/vz2": "{dir2.path}", "/var/lib/vz3": "{dir3.path}", "/var/lib/vz4": "{disabled.path}",
	"rpool/data": "{zfs.pool}", "/var/lib/vzdis": "{disabled.path}", "127.0.0.1:18180": "{http}",
}

var (
	name        = regexp.MustCompile(`/var/lib/vz(?:\d|dis)?|rpool/data|127\.0\.0\.1:18180|[A-Za-z0-9_][A-Za-z0-9_-]*`)
	mac         = regexp.MustCompile(`(?i)[0-9a-f]{2}(:[0-9a-f]{2}){5}`)
	uuid        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	digest      = regexp.MustCompile(`\b[0-9a-f]{40}\b`)
	upid        = regexp.MustCompile(`UPID:(\w+):[0-9A-F]{8}:[0-9A-F]{8}:([0-9A-F]{8}):([^:]*:[^:]*:[^:]*):`)
	ctime       = regexp.MustCompile(`ctime=\d+`)
	qemu        = regexp.MustCompile(`creation-qemu=[\d.]+`)
	build       = regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	hidden      = regexp.MustCompile(`<\w+>`)
	elided      = regexp.MustCompile(`^\.\.\. \(\d+ lines\)$`)
	resolver    = regexp.MustCompile(`'10\.255\.255\.53'`)
	digits      = regexp.MustCompile(`^\d+$`)
	wget        = regexp.MustCompile(`^--[\d-]+ [\d:]+--`)
	wgetLast    = regexp.MustCompile(`^\d{4}-\d\d-\d\d [\d:]+ (?:\(\S+ .B/s\) )?`)
	temporary   = regexp.MustCompile(`pveupload-[0-9a-f]{32}`)
	partial     = regexp.MustCompile(`tmp_dwnl\.\d+`)
	checksum    = regexp.MustCompile(`got '[0-9a-f]{64}'`)
	savedState  = regexp.MustCompile(`^completed saving the VM state in .*`)
	progressing = regexp.MustCompile(`^(drive-\w+: )?transferred |^\d+\.\d\d \w+ in \d+s$|^ *\d+K[ .]+\d+%|^Can't exec "udevadm"`)
	perlLine    = regexp.MustCompile(` line \d+\.`)
	fingerprint = regexp.MustCompile(`fingerprint$`)
)

// emptyDigest is the SHA-1 of nothing: the digest of a firewall file that is not there.
const emptyDigest = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

// byNature are keys whose numbers are of the moment or of the machine.
var byNature = []string{
	"pid", "pstart", "starttime", "endtime", "uptime", "cpu", "mem", "disk", "netin", "netout", "diskread",
	"diskwrite", "freemem", "used", "avail", "free", "available", "used_fraction", "saved", "snaptime", "ctime",
	"expire", "memhost", "total-bytes", "used-bytes",
}

// forms replaces what differs from server to server.
type forms struct {
	sent    string // all request parameters: a MAC or uuid in there was chosen by the client
	started int64  // the server's time of the first task
	tasks   map[string]int
}

func newForms(rows []object) *forms {
	f := &forms{tasks: map[string]int{}}
	for _, row := range rows {
		f.sent += string(row["params"]) + string(row["sent"])
	}
	return f
}

// remember notes which row started a task.
func (f *forms) remember(n int, row object) {
	var body struct{ Data string }
	if json.Unmarshal(row["body"], &body) == nil && strings.HasPrefix(body.Data, "UPID:") {
		f.tasks[body.Data] = n
	}
}

// time is when a task was started, in seconds after the first one.
func (f *forms) time(row object) int64 {
	var body struct{ Data string }
	if json.Unmarshal(row["body"], &body) != nil {
		return 0
	}
	m := upid.FindStringSubmatch(body.Data)
	if m == nil {
		return 0
	}
	at, err := strconv.ParseInt(m[2], 16, 64)
	if err != nil {
		return 0
	}
	if f.started == 0 {
		f.started = time.Unix(at, 0).Unix()
	}
	return at - f.started
}

func (f *forms) path(path string) string {
	return f.roles(upid.ReplaceAllStringFunc(path, func(id string) string {
		if n, ok := f.tasks[id]; ok {
			return fmt.Sprintf("{task %d}", n)
		}
		return id
	}))
}

func (f *forms) roles(text string) string {
	text = strings.ReplaceAll(text, "root@pam!tf", "{token}")
	return name.ReplaceAllStringFunc(text, func(word string) string {
		if role, ok := roleNames[word]; ok {
			return role
		}
		return word
	})
}

// string gives a text of an answer its forms and roles.
func (f *forms) string(key, text string) string {
	switch {
	case fingerprint.MatchString(key):
		return "~fingerprint~"
	case slices.Contains(machineText, key), strings.HasPrefix(key, "kernel-") && strings.HasSuffix(text, "rig"): // a guest's own words
		return "~text~"
	}
	text = upid.ReplaceAllString(text, "~upid $3~")
	text = mac.ReplaceAllStringFunc(text, func(m string) string {
		if m == "00:00:00:00:00:00" || strings.Contains(strings.ToUpper(f.sent), strings.ToUpper(m)) {
			return m
		}
		return "~mac~"
	})
	text = uuid.ReplaceAllStringFunc(text, func(id string) string {
		if strings.Contains(f.sent, id) {
			return id
		}
		return "~uuid~"
	})
	text = digest.ReplaceAllStringFunc(text, func(sum string) string {
		if sum == emptyDigest || strings.Contains(text, "'") {
			return sum
		}
		return "~digest~"
	})
	text = ctime.ReplaceAllString(text, "ctime=~int~")
	text = qemu.ReplaceAllString(text, "creation-qemu=~version~")
	text = build.ReplaceAllString(text, "~hex~")
	text = strings.ReplaceAll(text, "rig0000000000000", "~hex~") // the second host's build
	text = hidden.ReplaceAllString(text, "~text~")
	text = perlLine.ReplaceAllString(text, " line ~int~.")
	text = temporary.ReplaceAllString(text, "pveupload-~hex~")
	text = partial.ReplaceAllString(text, "tmp_dwnl.~int~")
	text = checksum.ReplaceAllString(text, "got '~hex~'")
	text = savedState.ReplaceAllString(text, "completed saving the VM state in ~text~")
	text = wgetLast.ReplaceAllString(text, "~time~ ~text~")
	text = resolver.ReplaceAllString(text, "'~address~'") // the recording host's own
	text = wget.ReplaceAllString(text, "--~time~--")
	return f.roles(text)
}

// value does the same for everything in a JSON value. Numbers keep their spelling.
func (f *forms) value(key string, raw json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f.any(key, v)); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

func (f *forms) any(key string, v any) any {
	switch v := v.(type) {
	case string:
		if key == "saved" { // a number or a string, as Perl used it last
			return "~number~"
		}
		if key == "ip-address" && strings.HasPrefix(v, "fe80:") && !strings.Contains(v, "fe00:") {
			return "~address~" // made of the MAC
		}
		if slices.Contains(byNature, key) && digits.MatchString(v) {
			return "~int~" // and a string, as a tool printed it
		}
		if key == "tokenid" && v == "tf" {
			return "{tokenid}"
		}
		return f.string(key, v)
	case json.Number:
		if slices.Contains(byNature, key) || len(v) > 15 { // nanoseconds since the epoch
			return "~number~"
		}
	case []any:
		out := []any{}
		for _, item := range v {
			if s, ok := item.(string); ok && key == "log" && (progressing.MatchString(s) || elided.MatchString(s)) {
				continue // progress
			}
			if m, ok := item.(map[string]any); ok && progress(m) {
				continue
			}
			out = append(out, f.any(key, item))
		}
		return out
	case map[string]any:
		return f.object(v)
	}
	return v
}

// progress tells a line of a log that only says how far a copy is.
func progress(m map[string]any) bool {
	t, _ := m["t"].(string)
	return progressing.MatchString(t)
}

// machineText are keys whose texts only describe the machine.
var machineText = []string{"kversion", "running-qemu", "running-machine"}

// machine are the parts of an answer that only describe the machine: every value is given by its form.
var machine = []string{"swap", "ksm", "boot-info", "rootfs", "cpuinfo", "current-kernel", "memory", "blockstat", "nics", "statistics", "loadavg"}

func (f *forms) object(v map[string]any) map[string]any {
	out := map[string]any{}
	node := v["type"] == "node"
	for k, item := range v {
		switch {
		case k == "proxmox-support": // the hosts' QEMUs were imitations and did not even agree on the names
			out[k] = "~any~"
		case slices.Contains(machine, k) && !isText(item), node && !slices.Contains([]string{"type", "node", "id", "status", "name", "online", "local"}, k):
			out[k] = form(item)
		default:
			out[f.roles(k)] = f.any(k, item)
		}
	}
	return out
}

func isText(v any) bool { _, ok := v.(string); return ok }

// form is a value that could be any other of its kind.
func form(v any) any {
	switch v := v.(type) {
	case string:
		return "~text~"
	case json.Number:
		return "~number~"
	case []any:
		return "~list~"
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			if k != "idle_time_ns" { // there only after the first access
				out[k] = form(item)
			}
		}
		return out
	}
	return "~any~"
}
