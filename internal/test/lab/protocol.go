package lab

import (
	"context"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
)

// Protocol plays Terraform in this process. Provider is the block that each configuration is completed by.
type Protocol struct {
	Session  *terraformtest.Session
	Provider string
}

// Configure replaces the configuration and the values of its variables.
func (p *Protocol) Configure(config string, variables map[string]string) error {
	for name, value := range variables {
		p.Session.SetString(name, value)
	}
	return p.Session.Configure(p.Provider, strings.Replace(config, emptyProvider, "", 1))
}

func (p *Protocol) said(err error) Outcome {
	all := p.Session.Diagnostics().String()
	if err != nil {
		all += "\n" + err.Error()
	}
	return Outcome{OK: err == nil, Text: unframed(all)}
}

// Plan is terraform plan.
func (p *Protocol) Plan(ctx context.Context) Outcome {
	plan, err := p.Session.Plan(ctx)
	out := p.said(err)
	if err == nil {
		out.Changes, out.Text = !plan.Empty(), unframed(plan.String()+"\n"+out.Text)
	}
	return out
}

// Apply is terraform apply.
func (p *Protocol) Apply(ctx context.Context) Outcome { return p.said(p.Session.Run(ctx)) }

// Destroy is terraform destroy.
func (p *Protocol) Destroy(ctx context.Context) Outcome { return p.said(p.Session.Destroy(ctx)) }

// Replace is terraform apply -replace.
func (p *Protocol) Replace(ctx context.Context, address string) Outcome {
	p.Session.Taint(address, true)
	return p.Apply(ctx)
}

// Import is terraform import.
func (p *Protocol) Import(ctx context.Context, address, id string) Outcome {
	return p.said(p.Session.Import(ctx, address, id))
}

// Forget is terraform state rm.
func (p *Protocol) Forget(_ context.Context, address string) Outcome {
	p.Session.Forget(address)
	return Outcome{OK: true}
}

// Generate is for a program only: cases with it need one.
func (p *Protocol) Generate(context.Context, string, string) Outcome {
	return Outcome{Text: "only a program writes a configuration"}
}

// Interrupt is for a program only.
func (p *Protocol) Interrupt(context.Context, func(context.Context) error) Outcome {
	return Outcome{Text: "only a program is interrupted by a signal"}
}

// Attributes are those of a resource in state.
func (p *Protocol) Attributes(_ context.Context, address string) (map[string]string, error) {
	i, err := p.Session.Instance(address)
	if err != nil {
		return nil, err
	}
	return flattened([]byte(terraformtest.ShowValue(i.Value)))
}
