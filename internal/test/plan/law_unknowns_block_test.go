package plan_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	frameworkprovider "github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/zclconf/go-cty/cty"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/share"
)

// The law of unknown values, of the provider block: an argument that another resource makes is not known in the plan, and
// in the apply it is a value, or null.

// blockRow is an argument that is not known in the plan of an object.
type blockRow struct {
	name        string
	body        string
	update      bool
	open, known flat // of the provider block
}

// blockShare is the part of the rows that `make test` plays.
const blockShare = 24

// blockBodies are what is made with the provider's defaults, and then changed.
func blockBodies() map[string]string {
	return map[string]string{
		"proxmox_vm":   "resource \"proxmox_vm\" \"it\" {\n  name = \"it\"\n  description = var.note\n  disks = { scsi0 = { size = \"1G\" } }\n  networks = { net0 = {} }\n}\n",
		"proxmox_disk": "resource \"proxmox_disk\" \"it\" {\n  name = \"it\"\n  description = var.note\n  node = \"pve1\"\n  storage = \"local-zfs\"\n  size = \"1G\"\n}\n",
	}
}

// blockValues are a value of each argument, beside those of the login.
func blockValues(t *testing.T, w *rig.World) flat {
	t.Helper()
	text, key := cty.StringVal, string(w.Sim.SSHPrivateKeyPEM())
	inFile := func(name, content string) cty.Value {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return text(path)
	}
	values := flat{
		"endpoints": cty.ListVal(texts(w.Sim.Endpoint())), "api_token": text(w.Sim.Credentials().Token), "totp_secret": text("JBSWY3DPEHPK3PXP"),
		"otp": text("123456"), "insecure": cty.False, "min_tls": text("1.2"), "request_timeout": text("30s"), "max_requests": cty.NumberIntVal(8),
		"restart_parallelism": cty.NumberIntVal(2), "plan_only": cty.False, "exclusive_storages": cty.SetVal(texts("shared-nfs")),
		"vmid_range.min": cty.NumberIntVal(500), "vmid_range.max": cty.NumberIntVal(600), "default_tags": cty.SetVal(texts("site")),
		"default_node": text("pve1"), "default_storage": text("local-zfs"), "default_bridge": text("vmbr1"), "default_pool": text("web"),
		"ssh.username": text("root"), "ssh.private_key": text(key), "ssh.private_key_file": inFile("key", key), "ssh.agent": cty.False,
		"ssh.agent_socket": text("/nowhere"), "ssh.port": cty.NumberIntVal(22), "ssh.known_hosts": text(string(w.Sim.SSHKnownHosts())),
		"ssh.known_hosts_file": inFile("known_hosts", string(w.Sim.SSHKnownHosts())), "ssh.host_key_fingerprint": text("SHA256:" + strings.Repeat("A", 43)),
		"ssh.bastion.host": text("bastion.example.org"), "ssh.bastion.port": cty.NumberIntVal(22), "ssh.bastion.username": text("jump"),
		"ssh.bastion.private_key": text(key), "ssh.nodes.pve1.address": text("192.0.2.11"), "ssh.nodes.pve1.port": cty.NumberIntVal(22),
	}
	maps.Copy(values, login(w))
	return values
}

// blockPaths are the arguments of the provider block, the groups of them as well.
func blockPaths(t *testing.T) (leaves, groups, top []string) {
	t.Helper()
	var response frameworkprovider.SchemaResponse
	provider.New("test")().Schema(t.Context(), frameworkprovider.SchemaRequest{}, &response)
	var walk func(prefix string, level map[string]schema.Attribute)
	walk = func(prefix string, level map[string]schema.Attribute) {
		for name, a := range level {
			if prefix == "" {
				top = append(top, name)
			}
			switch nested := a.(type) {
			case schema.SingleNestedAttribute:
				groups = append(groups, prefix+name)
				walk(prefix+name+".", nested.Attributes)
			case schema.MapNestedAttribute:
				groups = append(groups, prefix+name) // of a node that is wholly unknown the framework misses the address
				walk(prefix+name+".pve1.", nested.NestedObject.Attributes)
			default:
				leaves = append(leaves, prefix+name)
			}
		}
	}
	walk("", response.Schema.Attributes)
	slices.Sort(leaves)
	slices.Sort(groups)
	slices.Sort(top)
	return leaves, groups, top
}

// blockRows are those of each argument and each group, at create and at update, with a value and with null.
func blockRows(t *testing.T, w *rig.World) (all []blockRow) {
	t.Helper()
	values := blockValues(t, w)
	usual := login(w)
	for _, name := range []string{"default_node", "default_storage", "default_bridge"} {
		usual[name] = values[name]
	}
	leaves, groups, _ := blockPaths(t)
	for _, at := range slices.Concat(leaves, groups) {
		known := maps.Clone(usual)
		for path, v := range values {
			group, _, nested := strings.Cut(path, ".")
			if path == at || nested && (strings.HasPrefix(path, at+".") || group == "vmid_range" && strings.HasPrefix(at, "vmid_range.") ||
				strings.HasPrefix(path, "ssh.nodes.") && strings.HasPrefix(at, "ssh.nodes.")) {
				known[path] = v
			}
		}
		if at == "api_token" || at == "endpoints" {
			known.drop(map[string]string{"api_token": "username", "endpoints": "endpoint"}[at])
		}
		if at == "api_token" {
			known.drop("password")
		}
		if !known.has(at) {
			t.Errorf("%s has no example value", at)
		}
		without := known.with(at, cty.NullVal(cty.DynamicPseudoType))
		for typ, body := range blockBodies() {
			for _, update := range []bool{false, true} {
				for what, then := range map[string]flat{"a value": known, "null": without} {
					name := fmt.Sprintf("%s, %s, update %v: %s", at, typ, update, what)
					all = append(all, blockRow{name, body, update, known.with(at, cty.DynamicVal), then})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b blockRow) int { return strings.Compare(a.name, b.name) })
	return all
}

// try plans with the argument unknown and applies with it known.
func (r blockRow) try(ctx context.Context, w *rig.World, base []byte, top []string) (outcome, error) {
	said := map[bool]string{}
	for _, open := range []bool{true, false} {
		if err := w.Sim.Load(base); err != nil {
			return broken, err
		}
		s := w.NewSession()
		if err := s.Configure(blockOf(top...), `variable "note" {}`, r.body); err != nil {
			return broken, err
		}
		err := r.carryOut(ctx, s, open, top)
		for _, d := range s.Diagnostics() {
			if d.Violation {
				return broken, err
			}
		}
		switch {
		case err == nil && open:
			return holds, nil
		case errors.Is(err, errNoBeginning):
			return noBeginning, nil
		case err == nil:
			return broken, errors.New("it is refused only if it is not known in the plan: " + said[true])
		}
		said[open] = errorsOf(s)
	}
	if said[true] != said[false] {
		return broken, fmt.Errorf("%s\nand of the known value it is\n%s", said[true], said[false])
	}
	return refusedToo, nil
}

var errNoBeginning = errors.New("nothing to begin with")

func (r blockRow) carryOut(ctx context.Context, s *terraformtest.Session, open bool, top []string) error {
	first := r.known
	if open {
		first = r.open
	}
	s.SetString("note", "a")
	if r.update {
		configured(s, top, r.known)
		if err := s.Run(ctx); err != nil {
			return errNoBeginning
		}
		s.SetString("note", "b")
	}
	configured(s, top, first)
	pl, err := s.Plan(ctx)
	if err != nil {
		return err
	}
	configured(s, top, r.known)
	if err := s.Apply(ctx, pl); err != nil {
		return err
	}
	after, err := s.Plan(ctx)
	if err == nil && !after.Empty() {
		err = errors.New("the plan after the apply is not empty:\n" + after.String())
	}
	return err
}

// TestLawUnknownsOfTheProvider holds every argument of the provider block to the law.
func TestLawUnknownsOfTheProvider(t *testing.T) {
	t.Parallel()
	w := driftWorld(t, "pve1", "pve2")
	w.Change(func(world *state.World) { world.Pools["web"] = &state.Pool{ID: "web"} })
	base, rows, outcomes := w.Sim.Snapshot(), blockRows(t, w), map[outcome]int{}
	_, _, top := blockPaths(t)
	for number, r := range rows {
		if !share.Plays(number, blockShare, r.name) {
			continue
		}
		what, err := r.try(t.Context(), w, base, top)
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		outcomes[what]++
	}
	t.Logf("%d rows; of this share %d hold, %d more are refused as the known value is, and %d have nothing to begin with", len(rows),
		outcomes[holds], outcomes[refusedToo], outcomes[noBeginning])
	if len(rows) < 250 {
		t.Errorf("%d rows, want at least 250", len(rows))
	}
}
