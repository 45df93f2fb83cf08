package provider

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// arguments is the provider block; nil is not set.
type arguments struct {
	Endpoint       *string       `tfsdk:"endpoint"`
	Endpoints      []string      `tfsdk:"endpoints"`
	APIToken       *string       `tfsdk:"api_token"`
	Username       *string       `tfsdk:"username"`
	Password       *string       `tfsdk:"password"`
	TOTPSecret     *string       `tfsdk:"totp_secret"`
	OTP            *string       `tfsdk:"otp"`
	CACertificate  *string       `tfsdk:"ca_certificate"`
	Insecure       *bool         `tfsdk:"insecure"`
	MinTLS         *string       `tfsdk:"min_tls"`
	SSH            *sshArgument  `tfsdk:"ssh"`
	VMIDRange      *rangeOfVMIDs `tfsdk:"vmid_range"`
	RequestTimeout *string       `tfsdk:"request_timeout"`
	MaxRequests    *int64        `tfsdk:"max_requests"`

	RestartParallelism *int64 `tfsdk:"restart_parallelism"`
	PlanOnly           *bool  `tfsdk:"plan_only"`

	ExclusiveStorages []string `tfsdk:"exclusive_storages"`

	DefaultTags    []string `tfsdk:"default_tags"`
	DefaultNode    *string  `tfsdk:"default_node"`
	DefaultStorage *string  `tfsdk:"default_storage"`
	DefaultBridge  *string  `tfsdk:"default_bridge"`
	DefaultPool    *string  `tfsdk:"default_pool"`
}

type rangeOfVMIDs struct {
	Min int64 `tfsdk:"min"`
	Max int64 `tfsdk:"max"`
}

type sshArgument struct {
	Username           *string                 `tfsdk:"username"`
	PrivateKey         *string                 `tfsdk:"private_key"`
	PrivateKeyFile     *string                 `tfsdk:"private_key_file"`
	Agent              *bool                   `tfsdk:"agent"`
	AgentSocket        *string                 `tfsdk:"agent_socket"`
	Port               *int64                  `tfsdk:"port"`
	KnownHosts         *string                 `tfsdk:"known_hosts"`
	KnownHostsFile     *string                 `tfsdk:"known_hosts_file"`
	HostKeyFingerprint *string                 `tfsdk:"host_key_fingerprint"`
	Bastion            *bastionArgument        `tfsdk:"bastion"`
	Nodes              map[string]nodeArgument `tfsdk:"nodes"`
}

type bastionArgument struct {
	Host       *string `tfsdk:"host"`
	Port       *int64  `tfsdk:"port"`
	Username   *string `tfsdk:"username"`
	PrivateKey *string `tfsdk:"private_key"`
}

type nodeArgument struct {
	Address string `tfsdk:"address"`
	Port    *int64 `tfsdk:"port"`
}

// argumentError is an error in one argument of the block.
type argumentError struct {
	argument string
	err      error
}

func (a *argumentError) Error() string { return a.err.Error() }
func (a *argumentError) Unwrap() error { return a.err }

// environment reads variables and collects their errors.
type environment struct{ err error }

// prefix is the prefix of all variables. The names are those that users of other providers have already.
const prefix = "PROXMOX_VE_"

// text returns the configured value, or that of the variable. An empty value counts as not set.
func (e *environment) text(configured *string, variable string) *string {
	if configured != nil && *configured != "" {
		return configured
	}
	if value := os.Getenv(prefix + variable); value != "" {
		return &value
	}
	return nil
}

// splitList splits a variable that is a list.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' || r == ' ' })
}

func (e *environment) truth(configured *bool, variable string) *bool {
	value := os.Getenv(prefix + variable)
	if configured != nil || value == "" {
		return configured
	}
	truth, err := strconv.ParseBool(value)
	if err != nil {
		e.wrong(variable, "is neither true nor false")
	}
	return &truth
}

func (e *environment) number(configured *int64, variable string) *int64 {
	value := os.Getenv(prefix + variable)
	if configured != nil || value == "" {
		return configured
	}
	number, err := strconv.ParseInt(value, 10, 64)
	if err != nil || number < 1 {
		e.wrong(variable, "is no positive number")
	}
	return &number
}

func (e *environment) wrong(variable, how string) {
	e.err = errors.Join(e.err, fmt.Errorf("the environment variable %s%s %s", prefix, variable, how))
}

// settle completes the block with the environment. Credentials in the block override all those of the environment. A
// token in the environment overrides a user name beside it.
func settle(a arguments) (arguments, error) {
	var e environment
	hasToken, hasUser := set(a.APIToken), set(a.Username) || set(a.Password)
	if !hasUser {
		a.APIToken = e.text(a.APIToken, "API_TOKEN")
	}
	if !hasToken && (hasUser || !set(a.APIToken)) {
		a.Username, a.Password = e.text(a.Username, "USERNAME"), e.text(a.Password, "PASSWORD")
		a.TOTPSecret, a.OTP = e.text(a.TOTPSecret, "TOTP_SECRET"), e.text(a.OTP, "OTP")
	}
	a.Endpoint, a.Endpoints = e.endpoints(a.Endpoint, a.Endpoints)
	a.CACertificate = e.text(a.CACertificate, "CA_CERTIFICATE")
	a.Insecure = e.truth(a.Insecure, "INSECURE")
	a.MinTLS = e.text(a.MinTLS, "MIN_TLS")
	a.RequestTimeout = e.text(a.RequestTimeout, "REQUEST_TIMEOUT")
	a.MaxRequests = e.number(a.MaxRequests, "MAX_REQUESTS")
	a.RestartParallelism = e.number(a.RestartParallelism, "RESTART_PARALLELISM")
	a.PlanOnly = e.truth(a.PlanOnly, "PLAN_ONLY")
	a.VMIDRange = e.vmidRange(a.VMIDRange)
	if tags := e.text(nil, "DEFAULT_TAGS"); a.DefaultTags == nil && tags != nil {
		a.DefaultTags = splitList(*tags)
	}
	if storages := e.text(nil, "EXCLUSIVE_STORAGES"); a.ExclusiveStorages == nil && storages != nil {
		a.ExclusiveStorages = splitList(*storages)
	}
	a.DefaultNode, a.DefaultStorage = e.text(a.DefaultNode, "DEFAULT_NODE"), e.text(a.DefaultStorage, "DEFAULT_STORAGE")
	a.DefaultBridge, a.DefaultPool = e.text(a.DefaultBridge, "DEFAULT_BRIDGE"), e.text(a.DefaultPool, "DEFAULT_POOL")
	a.SSH = e.ssh(a.SSH)
	switch {
	case e.err != nil:
		return a, e.err
	case a.VMIDRange != nil && a.VMIDRange.Min > a.VMIDRange.Max:
		return a, &argumentError{"vmid_range", errors.New("the lowest VMID of vmid_range is above the highest")}
	case a.RequestTimeout != nil:
		if d, err := time.ParseDuration(*a.RequestTimeout); err != nil || d <= 0 {
			return a, &argumentError{"request_timeout", fmt.Errorf("%q is no duration such as 60s", *a.RequestTimeout)}
		}
	}
	return a, nil
}

// endpoints returns the single endpoint or the several. Those of the block override both of the environment.
func (e *environment) endpoints(one *string, several []string) (*string, []string) {
	if set(one) || several != nil {
		return one, several
	}
	one = e.text(nil, "ENDPOINT")
	if list := e.text(nil, "ENDPOINTS"); list != nil {
		several = strings.FieldsFunc(*list, func(r rune) bool { return r == ',' || r == ' ' })
	}
	if one != nil && len(several) > 0 {
		e.wrong("ENDPOINTS", "is set beside "+prefix+"ENDPOINT; one of them is enough")
	}
	return one, several
}

func set(p *string) bool { return p != nil && *p != "" }

func (e *environment) vmidRange(configured *rangeOfVMIDs) *rangeOfVMIDs {
	value := os.Getenv(prefix + "VMID_RANGE")
	if configured != nil || value == "" {
		return configured
	}
	low, high, ok := strings.Cut(value, "-")
	lowest, errLow := strconv.ParseInt(low, 10, 64)
	highest, errHigh := strconv.ParseInt(high, 10, 64)
	if !ok || errLow != nil || errHigh != nil || lowest < 100 || highest > 999999999 {
		e.wrong("VMID_RANGE", "is no range such as 1000-1999")
	}
	return &rangeOfVMIDs{Min: lowest, Max: highest}
}

// ssh completes the group. Without a block it exists only if the environment has a way to log in.
func (e *environment) ssh(configured *sshArgument) *sshArgument {
	var s sshArgument
	if configured != nil {
		s = *configured
	}
	s.Username = e.text(s.Username, "SSH_USERNAME")
	if !set(s.PrivateKeyFile) || set(s.PrivateKey) {
		s.PrivateKey = e.text(s.PrivateKey, "SSH_PRIVATE_KEY")
	}
	s.PrivateKeyFile = e.text(s.PrivateKeyFile, "SSH_PRIVATE_KEY_FILE")
	s.Agent = e.truth(s.Agent, "SSH_AGENT")
	s.AgentSocket = e.text(s.AgentSocket, "SSH_AUTH_SOCK")
	s.Port = e.number(s.Port, "SSH_PORT")
	s.KnownHosts = e.text(s.KnownHosts, "SSH_KNOWN_HOSTS")
	s.KnownHostsFile = e.text(s.KnownHostsFile, "SSH_KNOWN_HOSTS_FILE")
	s.HostKeyFingerprint = e.text(s.HostKeyFingerprint, "SSH_HOST_KEY_FINGERPRINT")
	s.Bastion = e.bastion(s.Bastion)
	s.Nodes = e.nodes(s.Nodes)
	if configured == nil && s.Username == nil && s.PrivateKey == nil && s.PrivateKeyFile == nil && (s.Agent == nil ||
		!*s.Agent) {
		return nil
	}
	return &s
}

// nodes are the addresses of nodes: those of the block, then those of the variable.
func (e *environment) nodes(configured map[string]nodeArgument) map[string]nodeArgument {
	all := map[string]nodeArgument{}
	for _, pair := range splitList(os.Getenv(prefix + "SSH_NODES")) {
		name, address, ok := strings.Cut(pair, "=")
		node, valid := nodeAt(address)
		if !ok || name == "" || !valid {
			e.wrong("SSH_NODES", "is no list such as pve1=10.0.0.1,pve2=10.0.0.2:2222")
			return configured
		}
		all[name] = node
	}
	maps.Copy(all, configured)
	return all
}

// nodeAt is the node at a name or an address, with a port behind it or without. An IPv6 address with one stands in
// brackets.
func nodeAt(address string) (node nodeArgument, valid bool) {
	host, digits, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
		return nodeArgument{Address: host}, host != ""
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	return nodeArgument{Address: host, Port: new(int64(port))}, err == nil && port > 0 && host != ""
}

func (e *environment) bastion(configured *bastionArgument) *bastionArgument {
	var b bastionArgument
	if configured != nil {
		b = *configured
	}
	b.Host = e.text(b.Host, "SSH_BASTION_HOST")
	b.Port = e.number(b.Port, "SSH_BASTION_PORT")
	b.Username = e.text(b.Username, "SSH_BASTION_USERNAME")
	b.PrivateKey = e.text(b.PrivateKey, "SSH_BASTION_PRIVATE_KEY")
	if configured == nil && b.Host == nil {
		return nil
	}
	return &b
}
