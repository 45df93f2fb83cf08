package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/terraformtest"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/test/rig"
)

// protocol drives the same files in this process, over the plugin protocol, by Terraform's rules.
type protocol struct {
	world   *rig.World
	session *terraformtest.Session
}

func newProtocol(world *rig.World) *protocol {
	return &protocol{world: world, session: world.NewSession()}
}

func (p *protocol) configure(files []string, replace map[string]string) error {
	texts := make([]string, len(files))
	for i, name := range files {
		text, err := configText(name, replace)
		if err != nil {
			return err
		}
		texts[i] = text
	}
	if err := p.session.Configure(texts...); err != nil {
		return err
	}
	vars, err := variables(p.world)
	if err != nil {
		return err
	}
	for name, v := range vars {
		p.session.SetString(name, v)
	}
	return nil
}

func (p *protocol) said(err error) result {
	r := result{ok: err == nil, output: p.session.Diagnostics().String()}
	if err != nil && !strings.Contains(r.output, err.Error()) {
		r.output += "\n" + err.Error()
	}
	return r
}

func (p *protocol) plan(ctx context.Context) result {
	pl, err := p.session.Plan(ctx)
	r := p.said(err)
	if pl != nil && err == nil {
		r.changes, r.output = !pl.Empty(), r.output+"\n"+pl.String()
	}
	return r
}

func (p *protocol) apply(ctx context.Context) result { return p.said(p.session.Run(ctx)) }

func (p *protocol) destroy(ctx context.Context) result { return p.said(p.session.Destroy(ctx)) }

func (p *protocol) importID(ctx context.Context, address, id string) result {
	return p.said(p.session.Import(ctx, address, id))
}

func (p *protocol) forget(_ context.Context, address string) result {
	p.session.Forget(address)
	return result{ok: true, output: fmt.Sprintf("Removed %s", address)}
}

func (p *protocol) addresses(context.Context) []string { return p.session.Addresses() }
