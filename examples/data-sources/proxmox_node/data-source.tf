data "proxmox_node" "first" {
  name = "pve1"
}

output "node" {
  value = data.proxmox_node.first
}
