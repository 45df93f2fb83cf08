output "proxmox" {
  value = provider::proxmox::mac_address("web-1/net0") # begins with BC:24:11
}

output "local" {
  value = provider::proxmox::mac_address("web-1/net0", "02")
}
