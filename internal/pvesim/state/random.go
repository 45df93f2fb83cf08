package state

import (
	"fmt"
	"math/rand/v2"
)

// random is the world's own source: the same world made in the same way draws the same values.
func (w *World) random() *rand.Rand {
	if w.rng == nil {
		w.rng = rand.New(rand.NewPCG(0x70766573, 0x696d))
	}
	return w.rng
}

// UUID draws a version 4 UUID.
func (w *World) UUID() string {
	a, b := w.random().Uint64(), w.random().Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
		uint32(a>>32), uint16(a>>16), uint16(a)&0x0fff, 0x8000|uint16(b>>48)&0x3fff, b&0xffffffffffff)
}

// MAC draws a hardware address, upper case, with Proxmox's prefix, or before there was one any locally administered
// unicast one (pve-common Tools.pm random_ether_addr).
func (w *World) MAC() string {
	r := w.random().Uint32()
	if !w.Has(MACPrefix) {
		return fmt.Sprintf("%02X:%02X:%02X:%02X:%02X:%02X", byte(r>>24)&0xfc|0x02, byte(r>>16)^0x5a, byte(r>>12), byte(r>>8), byte(r>>4), byte(r))
	}
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", byte(r>>16), byte(r>>8), byte(r))
}
