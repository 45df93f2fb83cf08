package ownership

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/vm"
)

// title opens the description of a VM whose create has not been committed yet.
const title = "Terraform is creating this VM. Do not touch it."

// Mark is the ownership mark: it says which run of which create makes a VM. It is the whole description until the
// commit puts the wanted one in its place.
type Mark struct {
	Cluster string // names of the nodes, sorted: what every identity can see of a cluster
	VMID    int
	// Saga names the run: 16 hexadecimal digits, drawn for it.
	Saga string
	// Key is the idempotency key: what was asked for, as 32 hexadecimal digits. A later create with the same key goes on.
	Key string
	// User is the identity that makes the VM, with its token: terraform@pve!ci.
	User string
	// By is the type of the task that makes it: qmcreate, qmclone or qmrestore.
	By string
	// Source is the VM that is cloned, 0 for none: PVE lists the task of a clone under its source.
	Source int
	// SourceUUID is the uuid that the source had, "" for none. One that is made again under its VMID has another, also
	// by a clone, which keeps the time of creation (qemu-server API2/Qemu.pm clone_vm).
	SourceUUID string
	// Begun is when the run that made it began, by the server's clock in seconds, 0 in the marks of older releases. It is
	// the only age where the clone that made it is not known.
	Begun int
	// Process names the process that makes it, "" if the system does not tell it from others.
	Process string
	// Renewed counts how often the run has shown that it lives.
	Renewed int
	// Kept: the user wants the leftovers of a failed create to stay.
	Kept bool
	// UUID is that of the VM, "" as long as it is not known.
	UUID string
	// Task is the UPID of the task that made the VM, "" as long as it is not known.
	Task string
	// Signature authenticates all other fields, in hexadecimal digits.
	Signature string
}

// field is a line of a mark.
type field struct {
	name     string
	form     *regexp.Regexp // of the whole value
	optional bool
	get      func(*Mark) string
	set      func(*Mark, string)
}

// fields are the lines of a mark, in their order. A field that does not have exactly its form makes the whole no mark.
// Names of nodes: pve-common JSONSchema.pm, pve_verify_node_name; users: pve-access-control Auth/Plugin.pm,
// verify_username; tokens: AccessControl.pm, $token_subid_regex. A create reads its mark with each look at its VM.
var fields = sync.OnceValue(func() []field {
	whole := func(form string) *regexp.Regexp { return regexp.MustCompile(`\A(?:` + form + `)\z`) }
	text := func(name, form string, optional bool, at func(*Mark) *string) field {
		return field{name, whole(form), optional, func(m *Mark) string { return *at(m) },
			func(m *Mark, value string) { *at(m) = value }}
	}
	number := func(name, form string, optional bool, at func(*Mark) *int) field {
		return field{name, whole(form), optional,
			func(m *Mark) string {
				if optional && *at(m) == 0 {
					return ""
				}
				return strconv.Itoa(*at(m))
			},
			func(m *Mark, value string) { *at(m), _ = strconv.Atoi(value) }} // the form leaves nothing to fail
	}
	const vmid = `[1-9][0-9]{2,8}`
	const user = `[^\s:/[:cntrl:]]+@[A-Za-z][A-Za-z0-9._-]+(?:![A-Za-z][A-Za-z0-9._-]+)?`
	const uuid = `[0-9A-Fa-f-]{36}`
	return []field{
		text("cluster", `[A-Za-z0-9-]+(?:,[A-Za-z0-9-]+)*`, false, func(m *Mark) *string { return &m.Cluster }),
		number("vmid", vmid, false, func(m *Mark) *int { return &m.VMID }),
		text("transaction", `[0-9a-f]{16}`, false, func(m *Mark) *string { return &m.Saga }),
		text("key", `[0-9a-f]{32}`, false, func(m *Mark) *string { return &m.Key }),
		text("user", user, false, func(m *Mark) *string { return &m.User }),
		text("by", `qmcreate|qmclone|qmrestore`, false, func(m *Mark) *string { return &m.By }),
		number("source", vmid, true, func(m *Mark) *int { return &m.Source }),
		text("source uuid", uuid, true, func(m *Mark) *string { return &m.SourceUUID }),
		number("begun", `[1-9][0-9]{0,10}`, true, func(m *Mark) *int { return &m.Begun }),
		text("process", `[!-~]+(?: [!-~]+){4}`, true, func(m *Mark) *string { return &m.Process }),
		number("renewed", `0|[1-9][0-9]{0,8}`, false, func(m *Mark) *int { return &m.Renewed }),
		{"kept", whole("yes"), true, func(m *Mark) string { return map[bool]string{true: "yes"}[m.Kept] },
			func(m *Mark, _ string) { m.Kept = true }},
		text("uuid", uuid, true, func(m *Mark) *string { return &m.UUID }),
		text("task", `UPID:[!-~]+`, true, func(m *Mark) *string { return &m.Task }),
		text("signature", `[0-9a-f]{64}`, false, func(m *Mark) *string { return &m.Signature }),
	}
})

// String is the description to send.
func (m Mark) String() string {
	lines := []string{title, ""}
	for _, f := range fields() {
		if value := f.get(&m); value != "" || !f.optional {
			lines = append(lines, f.name+": "+value)
		}
	}
	return strings.Join(lines, "\n")
}

// Parse reads a mark back. It is false for any description that is not exactly one, but for line breaks at its end,
// which PVE adds (qemu-server QemuServer.pm, parse_vm_config).
func Parse(description string) (Mark, bool) {
	text, ok := strings.CutPrefix(strings.TrimRight(description, "\n"), title+"\n\n")
	if !ok {
		return Mark{}, false
	}
	lines := strings.Split(text, "\n")
	var m Mark
	for _, f := range fields() {
		value, there := "", false
		if len(lines) > 0 {
			value, there = strings.CutPrefix(lines[0], f.name+": ")
		}
		switch {
		case there && f.form.MatchString(value):
			f.set(&m, value)
			lines = lines[1:]
		case there || !f.optional:
			return Mark{}, false
		}
	}
	return m, len(lines) == 0
}

// IsMark reports whether a description claims to be a mark, of whatever release, whole or damaged. It is no proof of
// anything; a VM that has one is not to be taken for finished.
func IsMark(description string) bool { return strings.HasPrefix(description, title) }

// Unfinished reports whether a VM is not to be copied, since its description says that its create is not over. The mark
// is empty if it is damaged, or of another release. One that names another VM says nothing: clones and backups bring
// descriptions along.
func Unfinished(vmid int, config map[string]string) (Mark, bool) {
	mark, whole := Parse(config["description"])
	if !whole {
		return Mark{}, IsMark(config["description"])
	}
	return mark, mark.VMID == vmid
}

// Sign returns the mark with the signature of a secret key (HMAC-SHA-256).
func (m Mark) Sign(key []byte) Mark {
	m.Signature = m.signature(key)
	return m
}

// Verify reports whether the holder of a key has signed the mark as it is. Without a key nothing verifies.
func (m Mark) Verify(key []byte) bool {
	return len(key) > 0 && hmac.Equal([]byte(m.Signature), []byte(m.signature(key)))
}

func (m Mark) signature(key []byte) string {
	m.Signature = ""
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(m.String())) // never fails, see hash.Hash
	return hex.EncodeToString(mac.Sum(nil))
}

// Proves reports whether a configuration that was read under vmid is the one that this run marks. The saga is drawn by
// the run, so that only a copy of the description has it; the uuid tells the VM from another one with such a copy.
func (m Mark) Proves(vmid int, config map[string]string) bool {
	found, ok := Parse(config["description"])
	return ok && found.VMID == vmid && m.VMID == vmid && found.Saga == m.Saga && found.Cluster == m.Cluster &&
		(found.UUID == "" || vm.UUID(config) == "" || strings.EqualFold(found.UUID, vm.UUID(config)))
}

// IsOvertaken reports whether a configuration bears the mark of another run under the same VMID. That run took this one
// for dead, or has made another VM; either way the VM is that run's, whatever else identifies it.
func (m Mark) IsOvertaken(config map[string]string) bool {
	other, marked := Parse(config["description"])
	return marked && other.VMID == m.VMID && other.Saga != m.Saga
}
