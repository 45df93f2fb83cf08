package terraformtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
)

const sampleAddress = "registry.terraform.io/samples/sample"

const requirements = "terraform {\n  required_providers {\n    sample = { source = \"" + sampleAddress + "\" }\n  }\n}\n"

// binaries are the CLIs to be had: those that TF_CLI names, as a list for PATH, and terraform and tofu on PATH.
func binaries(t *testing.T) []string {
	t.Helper()
	names := filepath.SplitList(os.Getenv("TF_CLI"))
	wanted := len(names)
	var found []string
	for i, name := range append(names, "terraform", "tofu") {
		path, err := exec.LookPath(name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			if i < wanted {
				t.Errorf("TF_CLI names %s, which is no program: %v", name, err)
			}
			continue
		}
		if !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}

// command is a working directory of a real CLI, with the sample in this process as its provider.
type command struct {
	t           *testing.T
	binary, dir string
	env         []string
	sample      *wireProvider
}

func newCommand(t *testing.T, binary string) *command {
	t.Helper()
	sample := newWireProvider()
	c := commandWith(t, binary, sample)
	c.sample = sample
	return c
}

// commandWith is a working directory of a real CLI, with a server in this process as its provider.
func commandWith(t *testing.T, binary string, sample tfprotov6.ProviderServer) *command {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, closed := make(chan *plugin.ReattachConfig), make(chan struct{})
	go func() {
		_ = tf6server.Serve(sampleAddress, func() tfprotov6.ProviderServer { return sample }, tf6server.WithDebug(ctx, ready, closed),
			tf6server.WithGoPluginLogger(hclog.NewNullLogger()))
	}()
	served := <-ready
	t.Cleanup(func() { stop(); <-closed })
	reattach, err := json.Marshal(map[string]any{sampleAddress: map[string]any{
		"Protocol": served.Protocol, "ProtocolVersion": served.ProtocolVersion, "Pid": served.Pid, "Test": true,
		"Addr": map[string]string{"Network": served.Addr.Network(), "String": served.Addr.String()},
	}})
	must(t, err)
	dir := t.TempDir()
	settings := filepath.Join(dir, "cli.tfrc")
	must(t, os.WriteFile(settings, nil, 0o600))
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TF_") })
	c := &command{t: t, binary: binary, dir: dir, env: append(env, "TF_REATTACH_PROVIDERS="+string(reattach),
		"TF_CLI_CONFIG_FILE="+settings, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "GOGC=400")}
	c.write(requirements)
	if out, err := c.try("init", "-no-color"); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	return c
}

func (c *command) write(config string) {
	must(c.t, os.WriteFile(filepath.Join(c.dir, "main.tf"), []byte(config), 0o600))
}

func (c *command) try(args ...string) (out []byte, err error) {
	cmd := exec.CommandContext(c.t.Context(), c.binary, args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	return cmd.CombinedOutput()
}

// step does a step with the real CLI.
func (c *command) step(s step) verdict {
	c.sample.expect(s.orders)
	c.write(requirements + s.config)
	v := verdict{Plan: map[string]change{}}
	switch {
	case s.importing != "":
		out, err := c.try("import", "-no-color", s.importing, s.id)
		v.said(plainDiagnostics(out)...)
		v.Failed = err != nil
	case s.refresh:
		out, err := c.try("apply", "-refresh-only", "-auto-approve", "-json")
		v.said(c.diagnostics(out)...)
		v.Failed = err != nil
	default:
		for _, address := range s.taint {
			if out, err := c.try("taint", address); err != nil {
				c.t.Fatalf("taint: %v\n%s", err, out)
			}
		}
		v = c.planAndApply(s)
	}
	v.State, v.Outputs = c.state()
	v.Calls = c.sample.heard()
	return v
}

func (c *command) planAndApply(s step) verdict {
	args := []string{"plan", "-json", "-out=plan"}
	if s.destroy {
		args = append(args, "-destroy")
	}
	for _, address := range s.replace {
		args = append(args, "-replace="+address)
	}
	_ = os.Remove(filepath.Join(c.dir, "plan"))
	out, err := c.try(args...)
	v := verdict{Plan: map[string]change{}, Failed: err != nil}
	v.said(c.diagnostics(out)...)
	if err != nil {
		return v
	}
	v.Plan = c.plan()
	if !s.planOnly {
		out, err := c.try("apply", "-json", "plan")
		v.said(c.diagnostics(out)...)
		v.Failed = err != nil
	}
	return v
}

// addressed finds a resource in a text.
var addressed = regexp.MustCompile(`(data\.)?sample_\w+\.\w+(\[[^]]*\])?`)

// diagnostics reads the JSON lines of a command.
func (c *command) diagnostics(out []byte) (all []string) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var line struct {
			Type       string `json:"type"`
			Diagnostic struct {
				Severity, Summary, Detail, Address string
			} `json:"diagnostic"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Type != "diagnostic" {
			continue
		}
		d := line.Diagnostic
		if d.Address == "" {
			d.Address = addressed.FindString(d.Detail)
		}
		all = append(all, fmt.Sprintf("%s %s: %s", d.Address, d.Severity, d.Summary))
	}
	return all
}

// plainDiagnostics reads the summaries of a command that knows no JSON.
func plainDiagnostics(out []byte) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)^[│╷]? *(Error|Warning): (.*)$`).FindAllSubmatch(out, -1) {
		all = append(all, fmt.Sprintf("%s: %s", strings.ToLower(string(m[1])), m[2]))
	}
	return all
}

// plan reads the plan that was made.
func (c *command) plan() map[string]change {
	out, err := c.try("show", "-json", "plan")
	must(c.t, err)
	var shown struct {
		Changes []struct {
			Address string `json:"address"`
			Deposed string `json:"deposed"`
			Change  struct {
				Actions []string `json:"actions"`
				After   any      `json:"after"`
				Unknown any      `json:"after_unknown"`
				Replace [][]any  `json:"replace_paths"`
			} `json:"change"`
		} `json:"resource_changes"`
	}
	must(c.t, json.Unmarshal(out, &shown))
	plan := map[string]change{}
	for _, one := range shown.Changes {
		planned := flatten(one.Change.After, "")
		maps.Copy(planned, unknowns(one.Change.Unknown, ""))
		maps.DeleteFunc(planned, func(path, value string) bool { // an object of which all is unknown
			below := func(p string) bool { return strings.HasPrefix(p, path+".") }
			return value == "{}" && slices.ContainsFunc(slices.Collect(maps.Keys(planned)), below)
		})
		action := strings.Join(one.Change.Actions, ",")
		if action == "delete,create" || action == "create,delete" {
			action = string(Replace)
		}
		var replace []string
		for _, steps := range one.Change.Replace {
			path := ""
			for _, step := range steps {
				path += fmt.Sprintf(".%v", step)
			}
			replace = append(replace, path)
		}
		slices.Sort(replace)
		if one.Deposed != "" {
			one.Address += deposed + ")"
		}
		plan[one.Address] = change{Action: action, Replace: replace, Planned: planned}
	}
	return plan
}

// state reads the state file.
func (c *command) state() (resources map[string]kept, outputs map[string]string) {
	resources, outputs = map[string]kept{}, map[string]string{}
	text, err := os.ReadFile(filepath.Join(c.dir, "terraform.tfstate"))
	if os.IsNotExist(err) {
		return resources, outputs
	}
	must(c.t, err)
	var file struct {
		Outputs   map[string]struct{ Value any } `json:"outputs"`
		Resources []struct {
			Mode, Type, Name string
			Instances        []struct {
				Key        any    `json:"index_key"`
				Status     string `json:"status"`
				Deposed    string `json:"deposed"`
				Version    int64  `json:"schema_version"`
				Attributes any    `json:"attributes"`
				Private    []byte `json:"private"`
			}
		} `json:"resources"`
	}
	must(c.t, json.Unmarshal(text, &file))
	for name, out := range file.Outputs {
		outputs[name] = fmt.Sprint(flatten(out.Value, ""))
	}
	for _, r := range file.Resources {
		if r.Mode != "managed" {
			continue
		}
		for _, i := range r.Instances {
			address := r.Type + "." + r.Name
			switch key := i.Key.(type) {
			case string:
				address += fmt.Sprintf("[%q]", key)
			case float64:
				address += fmt.Sprintf("[%v]", key)
			}
			if i.Deposed != "" {
				address += deposed + ")"
			}
			resources[address] = kept{Attributes: flatten(i.Attributes, ""), Private: string(i.Private),
				Tainted: i.Status == "tainted", Version: i.Version}
		}
	}
	return resources, outputs
}

// flatten gives the leaves of a JSON value by path.
func flatten(v any, path string) map[string]string {
	all := map[string]string{}
	switch v := v.(type) {
	case map[string]any:
		for name, part := range v {
			maps.Copy(all, flatten(part, path+"."+name))
		}
		if len(v) > 0 {
			return all
		}
	case []any:
		for i, part := range v {
			maps.Copy(all, flatten(part, fmt.Sprintf("%s.%d", path, i)))
		}
		if len(v) > 0 {
			return all
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return map[string]string{path: string(text)}
}

// unknowns gives the places that are marked in after_unknown.
func unknowns(v any, path string) map[string]string {
	all := map[string]string{}
	switch v := v.(type) {
	case bool:
		if v {
			all[path] = "(unknown)"
		}
	case map[string]any:
		for name, part := range v {
			maps.Copy(all, unknowns(part, path+"."+name))
		}
	case []any:
		for i, part := range v {
			maps.Copy(all, unknowns(part, fmt.Sprintf("%s.%d", path, i)))
		}
	}
	return all
}
