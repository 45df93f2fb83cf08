package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/terraform-linters/tflint-plugin-sdk/tflint"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/lint"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
)

// address is the provider's source address, as in the provider's own main.go.
const address = "registry.terraform.io/terraform-proxmox/proxmox"

// rule reports the findings of one kind.
type rule struct {
	tflint.DefaultRule
	name     string
	severity tflint.Severity
	reports  func(lint.Finding) bool
}

// unknownKey is the rule for keys that Terraform drops without a word.
func unknownKey() tflint.Rule {
	return &rule{name: "proxmox_unknown_key", severity: tflint.ERROR,
		reports: func(f lint.Finding) bool { return f.Deprecated == "" }}
}

// deprecatedKey is the rule for keys that the provider will lose.
func deprecatedKey() tflint.Rule {
	return &rule{name: "proxmox_deprecated_key", severity: tflint.WARNING,
		reports: func(f lint.Finding) bool { return f.Deprecated != "" }}
}

// Name is the rule's in the configuration of TFLint.
func (r *rule) Name() string { return r.name }

// Enabled reports whether the rule is on without a configuration.
func (r *rule) Enabled() bool { return true }

// Severity is that of all issues of the rule.
func (r *rule) Severity() tflint.Severity { return r.severity }

// Link is the page that explains the rule.
func (r *rule) Link() string {
	return "https://github.com/terraform-proxmox/terraform-provider-proxmox/blob/main/docs/guides/lint.md"
}

// Check compares the files of a module with the provider's schema. TFLint calls it for each module.
func (r *rule) Check(runner tflint.Runner) error {
	schema, err := schema(context.Background())
	if err != nil {
		return err
	}
	files, err := runner.GetFiles()
	if err != nil {
		return fmt.Errorf("get the files of the module: %w", err)
	}
	for _, finding := range schema.Files(files).Findings {
		if !r.reports(finding) {
			continue
		}
		if err := runner.EmitIssue(r, finding.Message(), finding.Range); err != nil {
			return fmt.Errorf("report %s: %w", finding.Path, err)
		}
	}
	return nil
}

// schema is that of the provider which is built in.
func schema(ctx context.Context) (*lint.Schema, error) {
	server := provider.NewServer(provider.New(version))()
	described, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("read the provider's schema: %w", err)
	}
	return lint.NewSchema(address, described)
}
