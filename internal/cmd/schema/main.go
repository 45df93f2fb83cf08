// Command schema writes the provider's schema as `terraform providers schema -json` prints it. The documentation is made
// from that, so it needs no Terraform binary and does not change with the version of the one that happens to be there.
//
// Usage: go run ./internal/cmd/schema FILE
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: schema FILE")
		os.Exit(2)
	}
	if err := write(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, name string) error {
	server, err := providerserver.NewProtocol6WithError(provider.New("dev")())()
	if err != nil {
		return err
	}
	document, err := describe(ctx, server)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o600)
}
