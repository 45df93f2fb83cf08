resource "proxmox_vm" "web" {
  node  = "pve1"
  vmid  = 101
  name  = "web"
  clone = { vmid = 9000, full = true }

  cloud_init = {
    user      = "ops"
    addresses = { net0 = { ipv4 = "10.0.0.5/24", gateway4 = "10.0.0.1" } }
  }
}
