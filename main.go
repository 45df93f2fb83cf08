// Command terraform-provider-proxmox is the Terraform and OpenTofu provider for virtual machines on Proxmox VE.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/otlp"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/lint"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
)

// address is the provider's source address. It stands here and nowhere else in the code.
const address = "registry.terraform.io/terraform-proxmox/proxmox"

// version is set by the linker.
var version = "dev"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "lint" {
		os.Exit(check(os.Args[2:]))
	}
	debug := flag.Bool("debug", false, "run for a debugger: print how Terraform can attach")
	show := flag.Bool("version", false, "print the version")
	flag.Parse()
	if *show {
		fmt.Println(version)
		return
	}
	boundGarbage(osEnvironment())
	if !*debug { // a debugger's provider writes where its user looks, not to Terraform
		if err := quieten(osEnvironment()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := serve(*debug); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check compares configurations with the provider's schema.
func check(args []string) int {
	server := provider.NewServer(provider.New(version))()
	program := lint.Program{Address: address, Server: server, Out: os.Stdout, Err: os.Stderr}
	return program.Run(context.Background(), args)
}

// serve answers Terraform until it has no more questions. Terraform ends a provider by closing the connection, and
// kills it two seconds later (go-plugin client.go, Kill): that is the time to send the last traces in.
func serve(debug bool) error {
	var options []tf6server.ServeOpt
	if debug {
		options = append(options, tf6server.WithManagedDebug())
	}
	o := provider.Options{Keeps: isLogged(osEnvironment()), Silent: !debug && isSilent(osEnvironment()), Lines: true}
	traces, err := otlp.New(context.Background(), version, os.Getenv)
	switch {
	case err != nil: // an apply is worth more than its traces
		fmt.Fprintln(os.Stderr, err)
	case traces != nil:
		o.Tracer, o.Keeps = traces, true
	}
	err = tf6server.Serve(address, provider.NewServer(provider.NewWith(version, o)), options...)
	if sent := traces.Close(); sent != nil {
		fmt.Fprintln(os.Stderr, "the last traces were not sent:", sent)
	}
	return err
}
