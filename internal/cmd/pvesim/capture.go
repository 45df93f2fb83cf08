package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/capture"
)

const captureUsage = `Usage: pvesim capture [flags] > world.yaml

Looks at a Proxmox VE cluster, changes nothing, and writes what it sees as a world for pvesim --world.
The identity comes from the environment, as the provider's: PROXMOX_VE_API_TOKEN, or PROXMOX_VE_USERNAME and
PROXMOX_VE_PASSWORD.

Passwords and the secrets of tokens never come along. Descriptions, comments, notes and args may hold secrets in any form,
so they come along only with -texts, and then secrets in them are masked as a best effort. Read the file before you share it.

`

// runCapture is the command "capture". notes is where it says what it could not see.
func runCapture(ctx context.Context, args []string, environment func(string) string, out, notes io.Writer) error {
	c := capture.Config{
		Token: environment("PROXMOX_VE_API_TOKEN"), Username: environment("PROXMOX_VE_USERNAME"),
		Password: environment("PROXMOX_VE_PASSWORD"),
	}
	insecure := environment("PROXMOX_VE_INSECURE")
	flags := flag.NewFlagSet("pvesim capture", flag.ContinueOnError)
	flags.SetOutput(notes)
	flags.Usage = func() {
		_, _ = fmt.Fprint(notes, captureUsage)
		flags.PrintDefaults()
	}
	flags.StringVar(&c.Endpoint, "endpoint", environment("PROXMOX_VE_ENDPOINT"),
		"`address` of the API, https://pve1.example.org:8006")
	flags.StringVar(&c.CACertificate, "ca", "",
		"`file` with the certificate of the authority that signed the server's; else PROXMOX_VE_CA_CERTIFICATE has it")
	flags.BoolVar(&c.Insecure, "insecure", insecure == "1" || insecure == "true", "verify no certificate")
	file := flags.String("out", "", "`file` to write instead of standard output; one that is there is not written over")
	flags.BoolVar(&c.Texts, "texts", false, "take descriptions, comments, notes and args along; secrets in them are masked "+
		"as a best\neffort, and some are missed: read the file before you share it")
	mask := flags.String("mask", "", "comma-separated `kinds` of words to replace by pseudonyms:\nall, "+
		strings.Join(capture.MaskKinds(), ", "))
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if c.Endpoint == "" {
		return errors.New("no endpoint: give -endpoint or PROXMOX_VE_ENDPOINT")
	}
	if c.CACertificate != "" {
		pem, err := os.ReadFile(filepath.Clean(c.CACertificate))
		if err != nil {
			return err
		}
		c.CACertificate = string(pem)
	} else {
		c.CACertificate = environment("PROXMOX_VE_CA_CERTIFICATE")
	}
	for _, kind := range strings.Split(*mask, ",") {
		if kind = strings.TrimSpace(kind); kind != "" {
			c.Mask = append(c.Mask, kind)
		}
	}
	return writeCapture(ctx, c, *file, out, notes)
}

// writeCapture looks first and writes then: what is written is whole.
func writeCapture(ctx context.Context, c capture.Config, file string, out, notes io.Writer) (err error) {
	if file != "" {
		if _, err := os.Lstat(file); err == nil {
			return fmt.Errorf("%s is there already", file)
		}
	}
	world, err := capture.Run(ctx, c)
	if err != nil {
		return err
	}
	if file != "" {
		f, err := os.OpenFile(filepath.Clean(file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	if err := world.Write(out); err != nil {
		return err
	}
	_, err = fmt.Fprintf(notes,
		"pvesim: %d nodes, %d guests, %d volumes; %d things could not be seen or have no place in a world, see not_seen\n",
		len(world.Nodes), len(world.Guests), len(world.Volumes), len(world.Captured.NotSeen))
	return err
}
