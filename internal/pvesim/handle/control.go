package handle

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/fault"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/state"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/pvesim/stranger"
)

// controlPrefix is where tests steer the simulator. Requests below it need no credentials, are not numbered, meet no
// fault and no latency.
const controlPrefix = "/_sim"

func (s *Server) control(q *httpRequest) *answer {
	reply := func(v any, err error) *answer {
		if err != nil {
			return plainError(400, err.Error())
		}
		body, err := json.Marshal(v)
		if err != nil {
			return plainError(500, err.Error())
		}
		return &answer{status: 200, reason: "OK", contentType: typeJSON, body: body}
	}
	s.Do(func(*state.World) {}) // what time has brought
	done := map[string]any{"ok": true}
	switch q.method + " " + strings.TrimPrefix(q.path, controlPrefix) {
	case "GET /snapshot":
		return &answer{status: 200, reason: "OK", contentType: typeJSON, body: s.Snapshot()}
	case "POST /state":
		return reply(done, s.Load(q.body))
	case "POST /reset":
		return reply(done, s.Reset())
	case "GET /ops":
		return reply(s.Ops(), nil)
	case "POST /hold", "POST /end", "POST /node":
		return reply(s.turn(strings.TrimPrefix(q.path, controlPrefix), q.body))
	case "GET /power":
		return reply(s.PowerOffs(), nil)
	case "GET /ha":
		return reply(s.managerLog(), nil)
	case "GET /faults":
		return reply(s.faults.List(), nil)
	case "PUT /faults":
		rules, err := fault.Read(q.body)
		if err != nil {
			return reply(nil, err)
		}
		return reply(done, s.faults.Put(rules))
	case "PUT /strangers":
		orders, err := decoded[[]stranger.Order](q.body)
		if err != nil {
			return reply(nil, err)
		}
		return reply(done, s.strangers.Put(orders))
	case "GET /strangers":
		return reply(append([]stranger.Deed{}, s.strangers.Deeds()...), nil)
	case "POST /strangers":
		order, err := decoded[stranger.Order](q.body)
		if err != nil {
			return reply(nil, err)
		}
		return reply(s.Visit(order))
	case "DELETE /faults":
		s.faults.Clear()
		return reply(done, nil)
	}
	return plainError(404, "no such control")
}

// decoded reads a document that must not have members nobody knows.
func decoded[T any](body []byte) (v T, err error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	err = dec.Decode(&v)
	return v, err
}

// Faults are the fault rules in force.
func (s *Server) Faults() *fault.Set { return &s.faults }

// Snapshot is everything that can leak, as comparable JSON.
func (s *Server) Snapshot() []byte {
	s.world.Lock()
	defer s.world.Unlock()
	return s.world.Snapshot()
}

// Load puts a snapshot's state in the place of the present one. Running workers die first, without clean-up.
func (s *Server) Load(snapshot []byte) error {
	s.enter()
	defer s.leave()
	s.world.Lock()
	defer s.world.Unlock()
	return s.load(snapshot)
}

func (s *Server) load(snapshot []byte) error {
	s.killWorkers()
	s.agenda = nil
	clear(s.locks)
	if err := s.world.Load(snapshot); err != nil {
		return err
	}
	s.stats.sample(s.world)
	return nil
}

// killWorkers ends all workers where they stand, and all waiting, whatever the clock says.
func (s *Server) killWorkers() {
	s.over()
	s.epoch, s.over = context.WithCancel(s.ctx)
	for len(s.workers) > 0 {
		for _, w := range s.workers {
			w.kill = true
			if w.foreign {
				s.endForeign(w.Task, "unexpected status")
			}
		}
		for _, w := range s.workers {
			s.world.Unlock()
			<-w.ended
			s.world.Lock()
			break // the others may have ended meanwhile
		}
	}
}

// largeSnapshot is from how many bytes on a snapshot is kept packed: that of ten thousand guests is as large as the guests themselves.
const largeSnapshot = 1 << 20

func packed(snapshot []byte) []byte {
	if len(snapshot) < largeSnapshot {
		return snapshot
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that exists
	_, _ = z.Write(snapshot)                        // into memory
	_ = z.Close()
	return b.Bytes()
}

// unpacked undoes packed. A snapshot begins with a brace, as nothing packed does.
func unpacked(b []byte) ([]byte, error) {
	if len(b) > 0 && b[0] == '{' {
		return b, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Reset goes back to the state the server started with, forgets tasks and operations and removes all faults.
func (s *Server) Reset() error {
	s.enter()
	defer s.leave()
	s.world.Lock()
	defer s.world.Unlock()
	s.faults.Clear()
	_ = s.strangers.Put(nil) // no order is an invalid one
	initial, err := unpacked(s.initial)
	if err != nil {
		return err
	}
	if err := s.load(initial); err != nil {
		return err
	}
	s.restore()
	clear(s.busy)
	s.ops = nil
	return nil
}

// Ops are the operations since the last reset, in order.
func (s *Server) Ops() []Op { return s.OpsAfter(0) }

// OpsAfter are the operations with a greater number.
func (s *Server) OpsAfter(seq int) []Op {
	s.world.Lock()
	defer s.world.Unlock()
	later := s.ops[min(seq, len(s.ops)):]
	list := make([]Op, 0, len(later))
	for _, op := range later {
		list = append(list, *op)
	}
	return list
}

// LastOp is the number of the last operation; 0 before the first.
func (s *Server) LastOp() int {
	s.world.Lock()
	defer s.world.Unlock()
	return len(s.ops)
}

// ResetOps starts the numbering of operations anew.
func (s *Server) ResetOps() {
	s.world.Lock()
	defer s.world.Unlock()
	s.ops = nil
}
