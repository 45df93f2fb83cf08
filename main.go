// Command terraform-provider-proxmox is the Terraform and OpenTofu provider for virtual machines on Proxmox VE.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/provider"
)

// address is the provider's source address. It stands here and nowhere else in the code.
const address = "registry.terraform.io/terraform-proxmox/proxmox"

// version is set by the linker.
var version = "dev"

func main() {
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
	var options []tf6server.ServeOpt
	if *debug {
		options = append(options, tf6server.WithManagedDebug())
	}
	err := tf6server.Serve(address, provider.NewServer(provider.New(version)), options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
