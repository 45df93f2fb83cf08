package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/interceptor"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pve"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/resource/kit"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/service"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/ssh"
)

// open makes the session of a settled configuration.
func (p *Proxmox) open(a arguments) (*kit.Session, error) {
	if !set(a.Endpoint) && len(a.Endpoints) == 0 {
		return nil, &argumentError{"endpoint", errors.New("the endpoint is not set: write endpoint = " +
			"\"https://pve1.example.com:8006\", or several nodes of one cluster as endpoints, or set the environment variable " +
			"PROXMOX_VE_ENDPOINT or PROXMOX_VE_ENDPOINTS")}
	}
	api, err := pve.New(p.client(a))
	if err != nil {
		return nil, err
	}
	session := &kit.Session{API: api.Reader(), Release: api.Close, Defaults: defaultsOf(a)}
	if a.VMIDRange != nil {
		session.Range = [2]int{int(a.VMIDRange.Min), int(a.VMIDRange.Max)}
	}
	var shell service.Shell // stays nil without SSH
	if a.SSH != nil && !api.Identity().PlanOnly {
		ssh, err := p.shell(*a.SSH, api)
		if err != nil {
			api.Close()
			return nil, &argumentError{"ssh", err}
		}
		shell, session.Shell = ssh, ssh
	}
	session.VMs = service.New(api, shell, p.options.Clock, a.ExclusiveStorages...)
	session.VMs.LimitRestarts(int(number(a.RestartParallelism)))
	session.VMs.Log = interceptor.Inform
	return session, nil
}

func defaultsOf(a arguments) kit.Defaults {
	return kit.Defaults{Tags: a.DefaultTags, Node: text(a.DefaultNode), Storage: text(a.DefaultStorage),
		Bridge: text(a.DefaultBridge), Pool: text(a.DefaultPool)}
}

func (p *Proxmox) client(a arguments) pve.Config {
	c := pve.Config{
		Endpoint: text(a.Endpoint), Endpoints: a.Endpoints, APIToken: text(a.APIToken), Username: text(a.Username),
		Password:   text(a.Password),
		TOTPSecret: text(a.TOTPSecret), OTP: text(a.OTP), CACertificate: text(a.CACertificate), MinTLS: text(a.MinTLS),
		Insecure: a.Insecure != nil && *a.Insecure, MaxInFlight: int(number(a.MaxRequests)),
		DialContext: p.options.DialContext, DialTLSContext: p.options.DialTLSContext, Clock: p.options.Clock,
		UserAgent: "terraform-provider-proxmox/" + p.version, PlanOnly: a.PlanOnly != nil && *a.PlanOnly,
	}
	if !p.options.Silent {
		c.Trace = interceptor.Trace(oplog.PVE)
	}
	if d, err := time.ParseDuration(text(a.RequestTimeout)); err == nil {
		c.RequestTimeout = d
	}
	return c
}

// shell makes the SSH side, without a connection.
func (p *Proxmox) shell(s sshArgument, api *pve.Client) (*ssh.Shell, error) {
	key, err := content("private_key", s.PrivateKey, s.PrivateKeyFile)
	if err != nil {
		return nil, err
	}
	known, err := knownHosts(s)
	if err != nil {
		return nil, err
	}
	c := ssh.Config{
		Username: text(s.Username), PrivateKeyPEM: key, UseAgent: s.Agent != nil && *s.Agent,
		AgentSocket: text(s.AgentSocket),
		Port:        int(number(s.Port)), KnownHosts: known, HostKeyFingerprint: text(s.HostKeyFingerprint),
		Nodes: map[string]ssh.Address{}, Resolve: resolver(api), Certificate: certificates(api),
		Dial: p.options.SSHDial, Trace: interceptor.Trace(oplog.SSH),
	}
	for name, n := range s.Nodes {
		c.Nodes[name] = ssh.Address{Host: n.Address, Port: int(number(n.Port))}
	}
	if b := s.Bastion; b != nil {
		c.Bastion = &ssh.Bastion{Host: text(b.Host), Port: int(number(b.Port)), Username: text(b.Username),
			PrivateKeyPEM: []byte(text(b.PrivateKey))}
	}
	return ssh.New(c)
}

// resolver finds the address of a node. On a single node it is the endpoint's, which is reached already. In a cluster
// it is the one that PVE says, or the node's name where this identity may not ask. The answer is asked for once.
func resolver(api *pve.Client) func(context.Context, string) (string, error) {
	var mu sync.Mutex
	var known map[string]string
	return func(ctx context.Context, node string) (string, error) {
		resources, err := api.Listing().Shared(ctx)
		if err == nil && len(resources.Nodes()) == 1 {
			endpoint, err := url.Parse(api.Endpoint())
			if err != nil {
				return "", err
			}
			return endpoint.Hostname(), nil
		}
		mu.Lock()
		defer mu.Unlock()
		if known == nil {
			known, _ = api.Reader().Cluster().Addresses(ctx) // a best effort, the name is as good a guess
		}
		return cmp.Or(known[node], node), nil
	}
}

// certificates finds the fingerprint of a node's certificate, "" where the API has none. Every identity may ask for it
// (pve-manager API2/Nodes.pm index). One answer serves for all nodes, until a host shows another certificate.
func certificates(api *pve.Client) func(context.Context, string, string) (string, error) {
	turn := make(chan struct{}, 1)
	var known map[string]string
	return func(ctx context.Context, node, seen string) (string, error) {
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		defer func() { <-turn }()
		if known == nil {
			known = api.Members()
		}
		if known[node] == seen {
			return seen, nil
		}
		nodes, err := api.Cluster().Nodes(ctx)
		if err != nil {
			return "", err
		}
		known = map[string]string{}
		for _, n := range nodes {
			known[n.Name] = n.SSLFingerprint
		}
		return known[node], nil
	}
}

// knownHosts returns the configured content, or that of the user's own file by default.
func knownHosts(s sshArgument) ([]byte, error) {
	if set(s.KnownHosts) || set(s.KnownHostsFile) {
		return content("known_hosts", s.KnownHosts, s.KnownHostsFile)
	}
	home, err := os.UserHomeDir()
	if err != nil || set(s.HostKeyFingerprint) {
		return nil, nil //nolint:nilerr // without a home there is no file either
	}
	known, err := os.ReadFile(filepath.Join(home, ".ssh", "known_hosts")) //nolint:gosec // a file of the user's own
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return known, err
}

// content returns the text of an argument, or that of the file in its sibling; "~/" is the user's home. An error does
// not repeat the name, which may be the text itself, a private key, by mistake.
func content(argument string, given, file *string) ([]byte, error) {
	if set(given) {
		return []byte(*given), nil
	}
	if !set(file) {
		return nil, nil
	}
	name := *file
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		name = filepath.Join(home, rest)
	}
	text, err := os.ReadFile(name) //nolint:gosec // the user named it
	var named *os.PathError
	switch {
	case err != nil && strings.Contains(name, "\n"):
		return nil, fmt.Errorf("%s_file is no name of a file but a text of several lines, which belongs into %[1]s",
			argument)
	case errors.As(err, &named):
		return nil, fmt.Errorf("the file that %s_file names cannot be read: %w", argument, named.Err)
	}
	return text, err
}

// where returns the argument that an error belongs to, or "".
func where(err error) string {
	var argument *argumentError
	if errors.As(err, &argument) {
		return argument.argument
	}
	var field *pve.ConfigError
	if errors.As(err, &field) {
		return map[string]string{"Endpoint": "endpoint", "Endpoints": "endpoints", "APIToken": "api_token",
			"Username":   "username",
			"TOTPSecret": "totp_secret", "CACertificate": "ca_certificate", "MinTLS": "min_tls"}[field.Field]
	}
	return ""
}

// sentence returns an error as the detail of a diagnostic.
func sentence(err error) string {
	text := err.Error()
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func number(p *int64) int64 {
	if p == nil {
		return 0
	}
	return *p
}
