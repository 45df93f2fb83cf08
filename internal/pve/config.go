package pve

import (
	"context"
	"crypto/sha1" //nolint:gosec // PVE's digest of a configuration
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve/wire"
)

// GuestConfig is a VM's config as PVE prints it.
type GuestConfig struct {
	// Values is option -> value, numbers and booleans in their text form. The digest is not among them.
	Values map[string]string
	// Digest is the SHA1 of the config file; sent with an update it makes PVE refuse a config that changed meanwhile.
	Digest string
}

type guestConfigWire map[string]json.RawMessage

// Config reads the values that are in force, without pending ones. A VM that does not exist on that node is
// NotFound; without VM.Audit it is Denied, whether it exists or not.
func (q QEMUReader) Config(ctx context.Context) (GuestConfig, error) {
	w, err := fetch[guestConfigWire](ctx, q.client, "read the config of "+q.name(), q.path("/config"),
		Params{"current": "1"})
	if err != nil {
		return GuestConfig{}, err
	}
	cfg := GuestConfig{Values: make(map[string]string, len(w))}
	for key, raw := range w {
		value, ok := configText(raw)
		switch {
		case key == "digest":
			cfg.Digest = value
		case ok:
			cfg.Values[key] = value
		}
	}
	return cfg, nil
}

// configText is one value of a config; null is no value. PVE has no nested ones; should it ever, they stay JSON.
func configText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", false
	}
	text, err := wire.Text(raw)
	if err != nil {
		return string(raw), true
	}
	return text, true
}

// PendingValue is one option with its value in force and the value that waits for a restart.
type PendingValue struct {
	Key string
	// Value is in force if HasValue; Pending will be if HasPending.
	Value, Pending       string
	HasValue, HasPending bool
	// Delete is 0, 1 for an option that will be removed, 2 for one whose volume will be destroyed as well.
	Delete int
}

// PendingConfig is a VM's config, current and pending.
type PendingConfig struct {
	// Entries are sorted by key. The digest is not among them.
	Entries []PendingValue
	// Digest is as in GuestConfig.
	Digest string
}

type pendingWire struct {
	Key     wire.String     `json:"key"`
	Value   json.RawMessage `json:"value"`
	Pending json.RawMessage `json:"pending"`
	Delete  wire.Int        `json:"delete"`
}

// Pending reads current and pending values in one request. Errors are as for QEMUReader.Config.
func (q QEMUReader) Pending(ctx context.Context) (PendingConfig, error) {
	return q.client.pendingConfig(ctx, "read the config of "+q.name(), q.path("/pending"))
}

func (c *Client) pendingConfig(ctx context.Context, op, path string) (PendingConfig, error) {
	list, err := fetch[[]pendingWire](ctx, c, op, path, nil)
	if err != nil {
		return PendingConfig{}, err
	}
	var cfg PendingConfig
	for _, w := range list {
		v := PendingValue{Key: string(w.Key), Delete: int(w.Delete)}
		v.Value, v.HasValue = configText(w.Value)
		v.Pending, v.HasPending = configText(w.Pending)
		if v.Key == "digest" { // the list carries it as if it were an option
			cfg.Digest = v.Value
			continue
		}
		cfg.Entries = append(cfg.Entries, v)
	}
	slices.SortFunc(cfg.Entries, byKey)
	return cfg, nil
}

func byKey(a, b PendingValue) int { return strings.Compare(a.Key, b.Key) }

// Current is the values in force.
func (p PendingConfig) Current() map[string]string {
	out := make(map[string]string, len(p.Entries))
	for _, v := range p.Entries {
		if v.HasValue {
			out[v.Key] = v.Value
		}
	}
	return out
}

// Merged is the values as they will be after a restart.
func (p PendingConfig) Merged() map[string]string {
	out := p.Current()
	for _, v := range p.Entries {
		switch {
		case v.HasPending:
			out[v.Key] = v.Pending
		case v.Delete != 0:
			delete(out, v.Key)
		}
	}
	return out
}

// With is the configuration after a change of options that PVE puts in force at once. Values that waited for a restart
// are left out, and the digest is not known.
func (p PendingConfig) With(set map[string]string, deleted []string) PendingConfig {
	values := p.Current()
	maps.Copy(values, set)
	for _, option := range deleted {
		delete(values, option)
	}
	var config PendingConfig
	for _, option := range slices.Sorted(maps.Keys(values)) {
		config.Entries = append(config.Entries, PendingValue{Key: option, Value: values[option], HasValue: true})
	}
	return config
}

// WithWaiting is the configuration after a change of options that all wait for the guest's next start. The digest is
// not known.
func (p PendingConfig) WithWaiting(set map[string]string, deleted []string) PendingConfig {
	config := p.With(nil, nil)
	for _, option := range slices.Sorted(maps.Keys(set)) {
		i := config.entry(option)
		config.Entries[i].Pending, config.Entries[i].HasPending = set[option], true
	}
	for _, option := range deleted {
		config.Entries[config.entry(option)].Delete = 1
	}
	return config
}

// entry is the place of an option, which gets one if it has none.
func (p *PendingConfig) entry(option string) int {
	i := slices.IndexFunc(p.Entries, func(e PendingValue) bool { return e.Key == option })
	if i < 0 {
		p.Entries = append(p.Entries, PendingValue{Key: option})
		i = len(p.Entries) - 1
	}
	return i
}

// Waiting is the options that wait for a restart, sorted.
func (p PendingConfig) Waiting() []string {
	var out []string
	for _, v := range p.Entries {
		if v.HasPending || v.Delete != 0 {
			out = append(out, v.Key)
		}
	}
	slices.Sort(out)
	return out
}

// UpdateConfig changes options at once. Values that a running VM cannot take stay pending; a value that it refuses at
// hotplug is Invalid and stays pending as well (qemu-server API2/Qemu.pm update_vm_api). Not for changes that allocate
// or import a disk: PVE's proxy gives up after 30 s. Changes that destroy have calls of their own (destroy.go).
func (q QEMUClient) UpdateConfig(ctx context.Context, p Params) error {
	op := "update the config of " + q.name()
	if err := mayDestroy(op, p); err != nil {
		return err
	}
	return q.client.change(ctx, op, http.MethodPut, q.path("/config"), p)
}

// UpdateConfigTask is UpdateConfig as a task. With p["background_delay"] the UPID is empty when it has ended well by
// then.
func (q QEMUClient) UpdateConfigTask(ctx context.Context, p Params) (UPID, error) {
	op := "update the config of " + q.name()
	if err := mayDestroy(op, p); err != nil {
		return "", err
	}
	return q.client.startOrFinish(ctx, op, http.MethodPost, q.path("/config"), p)
}

// MayHaveSnapshots reports whether there may be snapshots, or anything else that GET pending does not show. The
// digest is that of the guest's file, all sections of it, as PVE wrote it (qemu-server QemuServer.pm parse_vm_config
// and write_vm_config, pve-container LXC/Config.pm). So where a file of nothing but the options shown has that
// digest, there is no further section. Values that PVE hides, pending ones and a file that was written by hand leave
// it open.
func (p PendingConfig) MayHaveSnapshots() bool {
	for _, e := range p.Entries {
		if e.HasPending || e.Delete != 0 {
			return true
		}
	}
	return digestOf(p.Current()) != p.Digest
}

// Foretell is the configuration once PVE has given one option another value and changed nothing else. Its digest is
// "" where that cannot be told beforehand: the file has something that is not shown.
func (g GuestConfig) Foretell(option, value string) GuestConfig {
	after := GuestConfig{Values: maps.Clone(g.Values)}
	after.Values[option] = value
	if g.Digest != "" && digestOf(g.Values) == g.Digest {
		after.Digest = digestOf(after.Values)
	}
	return after
}

// digestOf is the digest of a file that has nothing but these options.
func digestOf(values map[string]string) string {
	var file strings.Builder
	if text := strings.TrimRight(values["description"], "\n"); text != "" {
		for _, line := range strings.Split(text, "\n") {
			file.WriteString("#" + encodeText(line) + "\n")
		}
	}
	for _, option := range slices.Sorted(maps.Keys(values)) {
		if option != "description" {
			file.WriteString(option + ": " + values[option] + "\n")
		}
	}
	sum := sha1.Sum([]byte(file.String())) //nolint:gosec // PVE's digest of a configuration
	return hex.EncodeToString(sum[:])
}

// encodeText is a line of a description as the file has it (pve-common Tools.pm encode_text).
func encodeText(line string) string {
	var text strings.Builder
	for i := range len(line) {
		if c := line[i]; c < 0x20 || c > 0x7e || c == '%' || c == ':' {
			fmt.Fprintf(&text, "%%%02X", c)
		} else {
			text.WriteByte(c)
		}
	}
	return text.String()
}
