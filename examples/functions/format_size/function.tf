output "size" {
  value = provider::proxmox::format_size(10737418240) # 10G
}
