package pve

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
)

// GuestConfig is a VM's config as PVE prints it.
type GuestConfig struct {
	// Values is option -> value, numbers and booleans in their text form. The digest is not among them.
	Values map[string]string
	// Digest is the SHA1 of the config file; sent with an update it makes PVE refuse a config that changed meanwhile.
	Digest string
}

type guestConfigWire map[string]json.RawMessage

// CurrentConfig reads the values that are in force, without pending ones. A VM that does not exist on that node is
// NotFound; without VM.Audit it is Denied, whether it exists or not.
func (c *Client) CurrentConfig(ctx context.Context, node string, vmid int) (GuestConfig, error) {
	w, err := fetch[guestConfigWire](ctx, c, "read the config of "+guestName(node, vmid), guestPath(node, vmid, "/config"),
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
	text, err := scalarText(raw)
	if err != nil {
		return string(raw), true
	}
	return text, true
}

// PendingValue is one option with what is in force and what waits for a restart.
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
	Key     flexString      `json:"key"`
	Value   json.RawMessage `json:"value"`
	Pending json.RawMessage `json:"pending"`
	Delete  flexInt         `json:"delete"`
}

// PendingConfig reads current and pending values in one request. Errors are as for CurrentConfig.
func (c *Client) PendingConfig(ctx context.Context, node string, vmid int) (PendingConfig, error) {
	return c.pendingConfig(ctx, "read the config of "+guestName(node, vmid), guestPath(node, vmid, "/pending"))
}

func (c *Client) pendingConfig(ctx context.Context, op, path string) (PendingConfig, error) {
	wire, err := fetch[[]pendingWire](ctx, c, op, path, nil)
	if err != nil {
		return PendingConfig{}, err
	}
	var cfg PendingConfig
	for _, w := range wire {
		v := PendingValue{Key: string(w.Key), Delete: int(w.Delete)}
		v.Value, v.HasValue = configText(w.Value)
		v.Pending, v.HasPending = configText(w.Pending)
		if v.Key == "digest" { // the list carries it as if it were an option
			cfg.Digest = v.Value
			continue
		}
		cfg.Entries = append(cfg.Entries, v)
	}
	slices.SortFunc(cfg.Entries, func(a, b PendingValue) int {
		switch {
		case a.Key < b.Key:
			return -1
		case a.Key > b.Key:
			return 1
		}
		return 0
	})
	return cfg, nil
}

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

// With is the configuration after a change of options that PVE puts in force at once. What waited for a restart is as if it were
// not there, and the digest is not known.
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

// UpdateConfig changes options at once. What a running VM cannot take stays pending; what it refuses at hotplug is
// Invalid and stays pending as well (qemu-server API2/Qemu.pm update_vm_api). Not for changes that allocate or import a
// disk: PVE's proxy gives up after 30 s. What destroys has calls of its own (destroy.go).
func (c *Client) UpdateConfig(ctx context.Context, node string, vmid int, p Params) error {
	op := "update the config of " + guestName(node, vmid)
	if err := mayDestroy(op, p); err != nil {
		return err
	}
	return c.change(ctx, op, http.MethodPut, guestPath(node, vmid, "/config"), p)
}

// UpdateConfigTask is UpdateConfig as a task. With p["background_delay"] the UPID is empty when it has ended well by then.
func (c *Client) UpdateConfigTask(ctx context.Context, node string, vmid int, p Params) (UPID, error) {
	op := "update the config of " + guestName(node, vmid)
	if err := mayDestroy(op, p); err != nil {
		return "", err
	}
	return c.startOrFinish(ctx, op, http.MethodPost, guestPath(node, vmid, "/config"), p)
}
