// Package server puts the rooms of the simulator together: a cluster behind HTTP, without certificates and SSH.
package server

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/control"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/engine"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/ha"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/proxy"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/thirdparty/act"
)

// Server is a whole cluster without its certificates and its SSH servers: the engine with all rooms, behind an HTTP
// proxy.
type Server struct {
	*engine.Engine
	proxy *proxy.Proxy
}

// New puts a cluster together. c.Routes and c.Hooks may be left out. It speaks plain HTTP if secure is nil.
func New(c engine.Config, secure *tls.Config) *Server {
	if c.Routes == nil {
		c.Routes = routes()
	}
	c.Hooks = engine.Hooks{Act: act.Perform, Boot: ha.Boot, Manage: ha.Manage, Motion: ha.Motion}
	e := engine.New(c)
	return &Server{Engine: e, proxy: proxy.New(e, secure, func(method, path string, body []byte) (int, string, []byte) {
		return control.Answer(e, method, path, body)
	})}
}

// Serve answers connections of l until l is closed.
func (s *Server) Serve(l net.Listener) error { return s.proxy.Serve(l) }

// Close cuts all connections, ends all workers where they stand and waits until every goroutine is gone.
// The listeners given to Serve are the caller's to close first.
func (s *Server) Close() {
	s.Stop()
	s.proxy.Close()
	s.Engine.Close()
}

// SetNode takes a node from the network, or brings it back.
func (s *Server) SetNode(name string, online bool) { ha.SetNode(s.Engine, name, online) }

// Fence lets a node crash and the HA manager bring its services up elsewhere.
func (s *Server) Fence(name string) { ha.Fence(s.Engine, name) }

// Act lets a third party act at once.
func (s *Server) Act(order thirdparty.Order) (thirdparty.Report, error) {
	return act.Now(s.Engine, order)
}

// PowerOffs are the power-offs and restarts of guests since the start, the last reset or the last ResetPowerOffs.
func (s *Server) PowerOffs() []state.PowerOff { return control.PowerOffs(s.Engine) }

// ResetPowerOffs starts the count again.
func (s *Server) ResetPowerOffs() { control.ResetPowerOffs(s.Engine) }

// EndGuest lets a guest power itself off, or die. The HA manager starts one in its care again.
func (s *Server) EndGuest(vmid int) { ha.EndGuest(s.Engine, vmid) }

// HoldLock gives a guest's configuration a lock that a third party's task holds for d on the cluster's clock. It
// returns the task's UPID, "" if there is no such guest. A lock that was there before is replaced.
func (s *Server) HoldLock(vmid int, lock string, d time.Duration, user string) (upid string) {
	return act.HoldLock(s.Engine, vmid, lock, d, user)
}

// StaleLock gives a guest's configuration a lock without a holder. The task of user that set it died, or is unknown if
// user is empty.
func (s *Server) StaleLock(vmid int, lock, user string) { act.StaleLock(s.Engine, vmid, lock, user) }

// HoldFile lets a third party's process hold the file lock of a guest's configuration for d.
func (s *Server) HoldFile(vmid int, d time.Duration) { act.HoldFile(s.Engine, vmid, d) }

// HoldMigration lets a replication hold the migration lock of a guest for d.
func (s *Server) HoldMigration(vmid int, d time.Duration) { act.HoldMigration(s.Engine, vmid, d) }

// HoldStorage lets a third party hold the lock for making and removing volumes of a storage for d.
func (s *Server) HoldStorage(node, storage string, d time.Duration) {
	act.HoldStorage(s.Engine, node, storage, d)
}

// HoldUserConfig lets a third party hold the lock of user.cfg, which has the pools, for d.
func (s *Server) HoldUserConfig(d time.Duration) { act.HoldUserConfig(s.Engine, d) }

// HoldFirewall lets a third party hold the lock of a guest's firewall file, in the whole cluster, for d.
func (s *Server) HoldFirewall(vmid int, d time.Duration) { act.HoldFirewall(s.Engine, vmid, d) }
