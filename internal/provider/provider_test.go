package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
)

// undocumented lists the attributes without a description.
func undocumented(prefix string, attributes []*tfprotov6.SchemaAttribute) []string {
	var found []string
	for _, a := range attributes {
		if a.Description == "" {
			found = append(found, prefix+a.Name)
		}
		if a.NestedType != nil {
			found = append(found, undocumented(prefix+a.Name+".", a.NestedType.Attributes)...)
		}
	}
	return found
}

func TestSchemasAreValidAndDocumented(t *testing.T) {
	ctx := context.Background()
	p := New("test")()
	var schema provider.SchemaResponse
	p.Schema(ctx, provider.SchemaRequest{}, &schema)
	if diags := schema.Schema.ValidateImplementation(ctx); diags.HasError() {
		t.Errorf("provider: %v", diags)
	}
	for _, make := range p.Resources(ctx) {
		var s resource.SchemaResponse
		make().Schema(ctx, resource.SchemaRequest{}, &s)
		if diags := s.Schema.ValidateImplementation(ctx); diags.HasError() {
			t.Errorf("resource: %v", diags)
		}
	}
	for _, make := range p.DataSources(ctx) {
		var s datasource.SchemaResponse
		make().Schema(ctx, datasource.SchemaRequest{}, &s)
		if diags := s.Schema.ValidateImplementation(ctx); diags.HasError() {
			t.Errorf("data source: %v", diags)
		}
	}
	server := providerserver.NewProtocol6(p)()
	all, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil || len(all.Diagnostics) > 0 {
		t.Fatalf("GetProviderSchema: %v %v", err, all.Diagnostics)
	}
	schemas := map[string]*tfprotov6.Schema{"provider": all.Provider}
	for name, s := range all.ResourceSchemas {
		schemas[name] = s
	}
	for name, s := range all.DataSourceSchemas {
		schemas["data."+name] = s
	}
	for name, s := range all.ListResourceSchemas {
		schemas["list."+name] = s
	}
	for name, s := range all.ActionSchemas {
		schemas["action."+name] = s.Schema
	}
	known := []string{
		"action.proxmox_orphan_delete",
		"action.proxmox_vm_power",
		"action.proxmox_vm_snapshot_rollback",
		"action.proxmox_vm_unlock",
		"data.proxmox_files",
		"data.proxmox_import_metadata",
		"data.proxmox_node",
		"data.proxmox_nodes",
		"data.proxmox_orphans",
		"data.proxmox_storages",
		"data.proxmox_version",
		"data.proxmox_vm",
		"data.proxmox_vms",
		"list.proxmox_vm",
		"provider",
		"proxmox_cloud_init_iso",
		"proxmox_disk",
		"proxmox_ha_rule",
		"proxmox_image",
		"proxmox_snippet",
		"proxmox_vm",
		"proxmox_vm_snapshot",
	}
	if got := slices.Sorted(maps.Keys(schemas)); !slices.Equal(got, known) {
		t.Errorf("schemas of %v, want %v", got, known)
	}
	for name, f := range all.Functions {
		if f.Summary == "" || f.Description == "" {
			t.Errorf("function %s is not described", name)
		}
	}
	for name, s := range schemas {
		if s.Block.Description == "" {
			t.Errorf("%s has no description", name)
		}
		if missing := undocumented("", s.Block.Attributes); len(missing) > 0 {
			t.Errorf("%s: no description for %s", name, strings.Join(missing, ", "))
		}
	}
}

// block makes a provider configuration of some arguments; the rest is null.
func block(t *testing.T, set map[string]tftypes.Value) tfsdk.Config {
	t.Helper()
	s := providerSchema()
	typ, ok := s.Type().TerraformType(context.Background()).(tftypes.Object)
	if !ok {
		t.Fatal("the provider's schema is no object")
	}
	values := map[string]tftypes.Value{}
	for name, attribute := range typ.AttributeTypes {
		values[name] = tftypes.NewValue(attribute, nil)
	}
	for name, v := range set {
		values[name] = v
	}
	return tfsdk.Config{Raw: tftypes.NewValue(typ, values), Schema: s}
}

func strs(all ...string) tftypes.Value {
	var values []tftypes.Value
	for _, s := range all {
		values = append(values, str(s))
	}
	return tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, values)
}

func str(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

// opened configures a provider and returns the session, or the first error.
func opened(t *testing.T, set map[string]tftypes.Value) (*kit.Session, string) {
	t.Helper()
	var session *kit.Session
	p := NewWith("test", Options{Opened: func(s *kit.Session) { session = s }})()
	var resp provider.ConfigureResponse
	p.Configure(context.Background(), provider.ConfigureRequest{Config: block(t, set)}, &resp)
	t.Cleanup(func() { _ = session.Close() })
	for _, d := range resp.Diagnostics.Errors() {
		return session, d.Summary() + ": " + d.Detail()
	}
	return session, ""
}

const (
	tokenA = "a@pve!t=11111111-1111-1111-1111-111111111111"
	tokenB = "b@pve!t=22222222-2222-2222-2222-222222222222"
)

func TestArgumentsAndEnvironment(t *testing.T) {
	tests := map[string]struct {
		env    map[string]string
		block  map[string]tftypes.Value
		user   string
		errors string
	}{
		"empty block, everything from the environment": {
			env: map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA}, user: "a@pve!t"},
		"the block wins over the environment": {
			env:   map[string]string{"ENDPOINT": "https://other:8006", "API_TOKEN": tokenA},
			block: map[string]tftypes.Value{"endpoint": str("https://h:8006"), "api_token": str(tokenB)}, user: "b@pve!t"},
		"a user in the block pushes the environment's token aside": {
			env:   map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA},
			block: map[string]tftypes.Value{"username": str("root@pam"), "password": str("x")}, user: "root@pam"},
		"a user in the block takes the password of the environment": {
			env:   map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "PASSWORD": "x"},
			block: map[string]tftypes.Value{"username": str("root@pam")}, user: "root@pam"},
		"a token in the block pushes the environment's user aside": {
			env:   map[string]string{"ENDPOINT": "https://h:8006", "USERNAME": "root@pam", "PASSWORD": "x"},
			block: map[string]tftypes.Value{"api_token": str(tokenB)}, user: "b@pve!t"},
		"the environment's token wins over its user": {
			env:  map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "USERNAME": "root@pam", "PASSWORD": "x"},
			user: "a@pve!t"},
		"several endpoints from the environment": {
			env: map[string]string{"ENDPOINTS": "https://h:8006, https://i:8006", "API_TOKEN": tokenA}, user: "a@pve!t"},
		"several endpoints in the block push the one aside": {
			env:   map[string]string{"ENDPOINT": "https://other:8006", "API_TOKEN": tokenA},
			block: map[string]tftypes.Value{"endpoints": strs("https://h:8006", "https://i:8006")}, user: "a@pve!t"},
		"one endpoint in the block pushes the several aside": {
			env:   map[string]string{"ENDPOINTS": "https://other:8006,https://i:8006", "API_TOKEN": tokenA},
			block: map[string]tftypes.Value{"endpoint": str("https://h:8006")}, user: "a@pve!t"},
		"one endpoint and several in the environment": {
			env:    map[string]string{"ENDPOINT": "https://h:8006", "ENDPOINTS": "https://i:8006", "API_TOKEN": tokenA},
			errors: "PROXMOX_VE_ENDPOINTS"},
		"one endpoint and several in the block": {
			env:    map[string]string{"API_TOKEN": tokenA},
			block:  map[string]tftypes.Value{"endpoint": str("https://h:8006"), "endpoints": strs("https://i:8006")},
			errors: "not both"},
		"an endpoint that is there twice": {
			env: map[string]string{"ENDPOINTS": "https://h:8006,https://h:8006/", "API_TOKEN": tokenA}, errors: "twice"},
		"no endpoint": {
			env: map[string]string{"API_TOKEN": tokenA}, errors: "PROXMOX_VE_ENDPOINT"},
		"no credentials": {
			env: map[string]string{"ENDPOINT": "https://h:8006"}, errors: "No credentials: set an API token (PROXMOX_VE_API_TOKEN)"},
		"an endpoint without TLS": {
			env: map[string]string{"ENDPOINT": "http://h:8006", "API_TOKEN": tokenA}, errors: "https://"},
		"a variable that is no truth value": {
			env:    map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "INSECURE": "maybe"},
			errors: "PROXMOX_VE_INSECURE"},
		"a range that is none": {
			env:    map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "VMID_RANGE": "2000"},
			errors: "PROXMOX_VE_VMID_RANGE"},
		"a range upside down": {
			env:    map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "VMID_RANGE": "2000-1000"},
			errors: "above the highest"},
		"nodes without addresses": {
			env:    map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "SSH_NODES": "pve1"},
			errors: "PROXMOX_VE_SSH_NODES is no list such as pve1=10.0.0.1"},
		"a node with a port that is none": {
			env:    map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "SSH_NODES": "pve1=10.0.0.1:ssh"},
			errors: "PROXMOX_VE_SSH_NODES is no list such as pve1=10.0.0.1"},
		"SSH without a way to log in": {
			env: map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "SSH_USERNAME": "root"}, errors: "key"},
		"SSH with a missing key file": {
			env: map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA,
				"SSH_PRIVATE_KEY_FILE": "/does/not/exist"},
			errors: "private_key_file names cannot be read: no such file"},
		"a key in the place of its file": {
			env: map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA,
				"SSH_PRIVATE_KEY_FILE": "-----BEGIN OPENSSH PRIVATE KEY-----\n11111111-\n"}, errors: "belongs into private_key"},
		"a key in the place of the known hosts' file": {
			env: map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "SSH_AGENT": "true",
				"SSH_KNOWN_HOSTS_FILE": "-----BEGIN OPENSSH PRIVATE KEY-----\n11111111-\n"}, errors: "belongs into known_hosts"},
		"a token in the place of the user": {
			env: map[string]string{"ENDPOINT": "https://h:8006", "USERNAME": tokenA, "PASSWORD": "x"}, errors: "user@realm"},
		"a token in the place of the endpoint": {
			env: map[string]string{"ENDPOINT": tokenA, "API_TOKEN": tokenA}, errors: "not a URL"},
		"a token in the place of the fingerprint": {
			env: map[string]string{"ENDPOINT": "https://h:8006", "API_TOKEN": tokenA, "SSH_AGENT": "true",
				"SSH_AUTH_SOCK": "/x", "SSH_HOST_KEY_FINGERPRINT": tokenA}, errors: "SHA256:"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			clearEnvironment(t)
			for variable, value := range tt.env {
				t.Setenv(prefix+variable, value)
			}
			session, failed := opened(t, tt.block)
			if tt.errors != "" {
				if !strings.Contains(failed, tt.errors) {
					t.Fatalf("error %q does not mention %q", failed, tt.errors)
				}
				if strings.Contains(failed, "11111111-") {
					t.Fatalf("error %q tells the token", failed)
				}
				return
			}
			if failed != "" {
				t.Fatal(failed)
			}
			if got := session.API.Identity().User; got != tt.user {
				t.Errorf("acts as %s, want %s", got, tt.user)
			}
			if got := session.API.Endpoint(); !strings.HasPrefix(got, "https://h:8006") {
				t.Errorf("endpoint %s", got)
			}
		})
	}
}

func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, variable := range []string{"ENDPOINT", "ENDPOINTS", "API_TOKEN", "USERNAME", "PASSWORD", "TOTP_SECRET", "OTP",
		"CA_CERTIFICATE", "INSECURE", "MIN_TLS",
		"REQUEST_TIMEOUT", "MAX_REQUESTS", "RESTART_PARALLELISM", "VMID_RANGE", "SSH_USERNAME", "SSH_PRIVATE_KEY", "SSH_PRIVATE_KEY_FILE",
		"SSH_AGENT", "SSH_AUTH_SOCK", "SSH_NODES",
		"SSH_PORT", "SSH_KNOWN_HOSTS", "SSH_KNOWN_HOSTS_FILE", "SSH_HOST_KEY_FINGERPRINT", "SSH_BASTION_HOST"} {
		t.Setenv(prefix+variable, "")
	}
	t.Setenv("HOME", t.TempDir())
}

// TestRestartParallelismArgument: the block wins over the variable, which has to be a positive number.
func TestRestartParallelismArgument(t *testing.T) {
	clearEnvironment(t)
	if a, err := settle(arguments{}); err != nil || a.RestartParallelism != nil {
		t.Errorf("%v, %v", a.RestartParallelism, err)
	}
	t.Setenv("PROXMOX_VE_RESTART_PARALLELISM", "2")
	if a, err := settle(arguments{}); err != nil || number(a.RestartParallelism) != 2 {
		t.Errorf("%v, %v", a.RestartParallelism, err)
	}
	if a, err := settle(arguments{RestartParallelism: new(int64(3))}); err != nil || number(a.RestartParallelism) != 3 {
		t.Errorf("%v, %v", a.RestartParallelism, err)
	}
	t.Setenv("PROXMOX_VE_RESTART_PARALLELISM", "0")
	_, err := settle(arguments{})
	if err == nil || !strings.Contains(err.Error(), "PROXMOX_VE_RESTART_PARALLELISM is no positive number") {
		t.Errorf("%v", err)
	}
}

func TestRangeFromEnvironment(t *testing.T) {
	clearEnvironment(t)
	t.Setenv("PROXMOX_VE_ENDPOINT", "https://h:8006")
	t.Setenv("PROXMOX_VE_API_TOKEN", tokenA)
	t.Setenv("PROXMOX_VE_VMID_RANGE", "1000-1999")
	session, failed := opened(t, nil)
	if failed != "" || session.Range != [2]int{1000, 1999} {
		t.Fatalf("range %v, %s", session.Range, failed)
	}
}

func TestUnknownConfigurationOpensNoClient(t *testing.T) {
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	for name, block := range map[string]map[string]tftypes.Value{
		"endpoint": {"endpoint": unknown},
		"one of endpoints": {"endpoints": tftypes.NewValue(tftypes.List{ElementType: tftypes.String},
			[]tftypes.Value{str("https://h"), unknown})},
		"all endpoints": {"endpoints": tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, tftypes.UnknownValue)},
	} {
		t.Run(name, func(t *testing.T) {
			clearEnvironment(t)
			session, failed := opened(t, block)
			if failed != "" || session == nil || session.Known() {
				t.Fatalf("session %+v, %s", session, failed)
			}
		})
	}
}

// TestNullAmongTheEndpoints: a null endpoint is refused on its attribute. With an unknown endpoint the provider waits.
func TestNullAmongTheEndpoints(t *testing.T) {
	server, err := providerserver.NewProtocol6WithError(New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		second tftypes.Value
		said   string
	}{
		"null":          {tftypes.NewValue(tftypes.String, nil), "Null List Value"},
		"not known yet": {tftypes.NewValue(tftypes.String, tftypes.UnknownValue), ""},
	} {
		config := block(t, map[string]tftypes.Value{
			"endpoints": tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, []tftypes.Value{str("https://h:8006"),
				c.second})})
		value, err := tfprotov6.NewDynamicValue(config.Raw.Type(), config.Raw)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.ValidateProviderConfig(t.Context(), &tfprotov6.ValidateProviderConfigRequest{Config: &value})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, d := range resp.Diagnostics {
			said += d.Summary
		}
		if said != c.said {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// TestSSHAddressVariable: the variable gives addresses of nodes, and the block wins for those that it names.
func TestSSHAddressVariable(t *testing.T) {
	clearEnvironment(t)
	t.Setenv(prefix+"SSH_USERNAME", "root")
	t.Setenv(prefix+"SSH_NODES", "pve1=10.0.0.1, pve2=fd00::2, pve3=h:2201, pve4=[fd00::4]:2202, pve5=[fd00::5]")
	port := int64(2222)
	a, err := settle(arguments{SSH: &sshArgument{Nodes: map[string]nodeArgument{"pve2": {Address: "h", Port: &port}}}})
	if err != nil || a.SSH.Nodes["pve1"].Address != "10.0.0.1" || a.SSH.Nodes["pve1"].Port != nil || a.SSH.Nodes["pve2"].Address != "h" || len(a.SSH.Nodes) != 5 {
		t.Errorf("%v, %+v", err, a.SSH)
	}
	for name, want := range map[string]string{"pve3": "h 2201", "pve4": "fd00::4 2202", "pve5": "fd00::5 0"} {
		port := int64(0)
		if a.SSH.Nodes[name].Port != nil {
			port = *a.SSH.Nodes[name].Port
		}
		if is := fmt.Sprintf("%s %d", a.SSH.Nodes[name].Address, port); is != want {
			t.Errorf("%s is at %s, want %s", name, is, want)
		}
	}
}
