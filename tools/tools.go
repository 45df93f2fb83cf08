// Package tools pins the programs of the development loop in a module of its own, so that their dependencies stay out of
// the provider's. `go generate` in this folder regenerates docs/; `make lint` runs golangci-lint.
package tools

//go:generate go -C .. run ./internal/cmd/schema .tools/schema.json
//go:generate go tool tfplugindocs generate --provider-dir .. --provider-name proxmox --rendered-provider-name "Proxmox VE" --providers-schema ../.tools/schema.json
