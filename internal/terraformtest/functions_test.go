package terraformtest

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/provider"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest/objchange"
)

// talker is the sample with a function.
type talker struct{ *sampleProvider }

func (talker) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return join{} }}
}

// join is a function with a variadic parameter, which refuses a comma.
type join struct{}

func (join) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "join"
}

func (join) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{Parameters: []function.Parameter{function.StringParameter{Name: "first"}},
		VariadicParameter: function.StringParameter{Name: "more"}, Return: function.StringReturn{}}
}

func (join) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var first string
	var more []string
	if resp.Error = req.Arguments.Get(ctx, &first, &more); resp.Error != nil {
		return
	}
	if first == "," {
		resp.Error = function.NewArgumentFuncError(0, "no comma, please")
		return
	}
	resp.Error = resp.Result.Set(ctx, strings.Join(append([]string{first}, more...), "+"))
}

func newTalker() Factory {
	sample := newSample()
	return ServerOf(func() provider.Provider { return talker{&sampleProvider{sample}} })
}

// TestProviderFunctions: a configuration calls the provider's functions by its name for the provider; an unknown argument gives an
// unknown value.
func TestProviderFunctions(t *testing.T) {
	t.Parallel()
	s := start(t, newTalker(), `
provider "sample" {}
resource "sample_thing" "a" { name = provider::sample::join("x", "y", "z") }
output "known" { value = sample_thing.a.name }
output "one" { value = provider::sample::join("x") }
output "later" { value = provider::sample::join(sample_thing.a.id, "y") }
`)
	must(t, s.Converge(context.Background()))
	for output, want := range map[string]string{"known": `"x+y+z"`, "one": `"x"`, "later": `"1+y"`} {
		if got := objchange.ShowValue(s.Output(output)); got != want {
			t.Errorf("%s is %s, want %s", output, got, want)
		}
	}
	for _, wrong := range []string{`provider::sample::join(",")`, `provider::sample::join()`, `provider::sample::cut("x")`, `provider::other::join("x")`} {
		must(t, s.Configure("provider \"sample\" {}\noutput \"x\" { value = "+wrong+" }\n"))
		if err := s.Run(context.Background()); err == nil {
			t.Errorf("%s has the value %s", wrong, objchange.ShowValue(s.Output("x")))
		} else if strings.Contains(wrong, `","`) && !strings.Contains(err.Error(), "no comma, please") {
			t.Error(err)
		}
	}
}
